#include "tools/copy/copy_plan.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>

#include "engine/commit/layout.h"
#include "engine/commit/unfinished.h"
#include "engine/format/directory_names.h"
#include "holdfast/steps/steps.h"
#include "stores/place/well_known_names.h"

namespace holdfast {
namespace {

constexpr std::string_view kTrackerName = "latest_checkpointed_iteration.txt";
constexpr std::string_view kIndexSuffix = ".index.json";
constexpr std::string_view kConvertSuffix = ".holdfast-convert-tmp";

// Files that mark a checkpoint. If it has no commit marker, the first of these
// that it has is written last.
constexpr std::array<std::string_view, 9> kSigns = {
    "metadata.json",         ".metadata",       "zarr.json",   ".zarray",
    kCheckpointMetadataFile, kTreeMetadataFile, kManifestFile, kAggregateFile,
    kCommitMarkerFile,
};
constexpr std::array<std::string_view, 7> kOtherHeads = {
    kDigestFile, kShardingFile, kV1MarkerFile,    ".zattrs",
    ".zgroup",   "common.pt",   kRootMetadataFile};

bool HasName(const auto& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

bool IsHead(std::string_view name) {
  return HasName(kSigns, name) || HasName(kOtherHeads, name) ||
         name.ends_with(kIndexSuffix);
}

std::string_view FileOf(std::string_view path) {
  return path.substr(path.rfind('/') + 1);  // npos + 1 is 0
}

std::string_view DirectoryPart(std::string_view path) {
  const size_t slash = path.rfind('/');
  return slash == std::string_view::npos ? "" : path.substr(0, slash);
}

bool IsUnfinishedName(std::string_view directory_name) {
  return IsTemporaryName(directory_name) ||
         directory_name == kTrashDirectoryName ||
         directory_name.ends_with(kCopySuffix) ||
         directory_name.ends_with(kConvertSuffix) ||
         NameOfReplaced(directory_name).has_value();
}

// Returns the path up to the first directory whose name marks it as unfinished.
std::optional<std::string_view> UnfinishedPart(std::string_view path) {
  for (size_t start = 0;;) {
    const size_t slash = path.find('/', start);
    if (slash == std::string_view::npos) return std::nullopt;
    if (IsUnfinishedName(path.substr(start, slash - start))) {
      return path.substr(0, slash);
    }
    start = slash + 1;
  }
}

class Planner {
 public:
  explicit Planner(std::string_view place_name) : place_name_(place_name) {}

  TreeCopyPlan Plan(const std::vector<ListedFile>& files) {
    for (const ListedFile& file : files) Sort(file.name);
    FindUnits();
    for (const std::string& name : names_) {
      if (CopyUnit* const unit = UnitOf(name)) {
        AddToUnit(name, *unit);
      } else if (FileOf(name) == kTrackerName) {
        plan_.pointers.push_back(name);
      } else {
        plan_.loose.push_back(name);
      }
    }
    for (auto& [directory, unit] : units_) {
      ChooseLast(unit);
      plan_.units.push_back(std::move(unit));
    }
    return std::move(plan_);
  }

 private:
  void Sort(const std::string& name) {
    if (const auto unfinished = UnfinishedPart(name)) {
      const bool is_new =
          plan_.unfinished.empty() || plan_.unfinished.back() != *unfinished;
      if (is_new) plan_.unfinished.emplace_back(*unfinished);
    } else if (!IsScaffold(name)) {
      names_.push_back(name);
    }
  }

  void FindUnits() {
    std::set<std::string, std::less<>> found;
    for (const std::string& name : names_) {
      if (IsUnitSign(FileOf(name))) found.insert(StepAbove(name));
    }
    for (const std::string& directory : found) {
      if (IsBelowAny(directory)) continue;
      units_[directory].directory = directory;
    }
  }

  // Returns the directory of the unit to which a sign belongs. Releases before
  // `_CHECKPOINT_METADATA` put signs only into a step's items.
  std::string StepAbove(std::string_view sign) const {
    const std::string_view directory = DirectoryPart(sign);
    const std::string_view name = FileOf(sign);
    const bool is_item = name == kTreeMetadataFile || name == kAggregateFile;
    if (!is_item || directory.empty()) return std::string(directory);
    const std::string_view above = DirectoryPart(directory);
    const std::string_view above_name =
        above.empty() ? place_name_ : FileOf(above);
    // A step is not an item of a step.
    const bool is_step = StepOfName(above_name).has_value() &&
                         !StepOfName(FileOf(directory)).has_value();
    return std::string(is_step ? above : directory);
  }

  // Returns true if the directory is inside a unit. Sorted names do not tell,
  // because other names may come between a unit and its contents.
  bool IsBelowAny(std::string_view directory) const {
    while (!directory.empty()) {
      directory = DirectoryPart(directory);
      if (units_.find(directory) != units_.end()) return true;
    }
    return false;
  }

  CopyUnit* UnitOf(std::string_view file) {
    for (std::string_view directory = DirectoryPart(file);;
         directory = DirectoryPart(directory)) {
      const auto found = units_.find(directory);
      if (found != units_.end()) return &found->second;
      if (directory.empty()) return nullptr;
    }
  }

  static void AddToUnit(const std::string& name, CopyUnit& unit) {
    const size_t skip = unit.directory.empty() ? 0 : unit.directory.size() + 1;
    std::string inside = name.substr(skip);
    const std::string_view file = FileOf(inside);
    unit.is_orbax = unit.is_orbax || file == kCheckpointMetadataFile ||
                    file == kTreeMetadataFile || file == kAggregateFile ||
                    file == kCommitMarkerFile;
    (IsHead(file) ? unit.heads : unit.data).push_back(std::move(inside));
  }

  static void ChooseLast(CopyUnit& unit) {
    const auto take = [&](std::string_view name) {
      const auto found = std::find(unit.heads.begin(), unit.heads.end(), name);
      if (found == unit.heads.end()) return false;
      unit.last.push_back(std::move(*found));
      unit.heads.erase(found);
      return true;
    };
    if (take(kCommitMarkerFile)) return;
    for (const std::string_view sign : kSigns) {
      if (take(sign)) return;
    }
    const auto index = std::find_if(
        unit.heads.begin(), unit.heads.end(),
        [](std::string_view name) { return name.ends_with(kIndexSuffix); });
    if (index != unit.heads.end()) (void)take(std::string(*index));
  }

  const std::string_view place_name_;
  std::vector<std::string> names_;
  std::map<std::string, CopyUnit, std::less<>> units_;
  TreeCopyPlan plan_;
};

}  // namespace

bool IsUnitSign(std::string_view file_name) {
  return HasName(kSigns, file_name) ||
         file_name.ends_with(".safetensors.index.json") ||
         file_name.ends_with(".bin.index.json");
}

bool IsScaffold(std::string_view path) {
  const std::string_view name = FileOf(path);
  return name == kCopyJournal || name == kSaveLease;
}

TreeCopyPlan PlanTreeCopy(const std::vector<ListedFile>& files,
                          std::string_view place_name) {
  return Planner(place_name).Plan(files);
}

}  // namespace holdfast
