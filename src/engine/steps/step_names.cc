#include "holdfast/steps/step_names.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <set>

#include "engine/commit/layout.h"
#include "engine/commit/unfinished.h"
#include "engine/format/directory_names.h"
#include "engine/steps/step_lists.h"
#include "engine/steps/step_scan.h"
#include "ground/base/status_macros.h"
#include "stores/place/directory_ops.h"
#include "stores/place/look.h"

namespace holdfast {
namespace {

bool AreDigits(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return c >= '0' && c <= '9';
  });
}

// Returns the number; nullopt if it is not one, or does not fit into an int64.
std::optional<int64_t> NumberOf(std::string_view digits) {
  if (!AreDigits(digits)) return std::nullopt;
  int64_t number = 0;
  const char* end = digits.data() + digits.size();
  const auto [stop, error] = std::from_chars(digits.data(), end, number);
  if (error != std::errc() || stop != end) return std::nullopt;
  return number;
}

std::string_view LastElement(std::string_view path) {
  const size_t slash = path.rfind('/');
  return slash == path.npos ? path : path.substr(slash + 1);
}

// Returns the names of the entries; empty if the directory does not exist.
Result<std::vector<std::string>> NamesIn(const Place& root) {
  HF_ASSIGN_OR_RETURN(const bool is_directory, LeadsToDirectory(root));
  return is_directory ? ListBroughtBack(root) : std::vector<std::string>();
}

Result<bool> CheckPlaceTemporary(const Place& place, const CommittedBy& rule) {
  const bool is_marked =
      ResolvedCommitMode(place, rule.mode) == CommitMode::kMarkerFile;
  if (!is_marked && !IsTemporaryName(LastElement(place.path()))) return false;
  HF_ASSIGN_OR_RETURN(const PathKind kind, GetPathKind(place));
  if (kind != PathKind::kDirectory) return false;
  if (!is_marked) return true;
  HF_ASSIGN_OR_RETURN(const bool is_final, CheckPlaceFinalized(place, rule));
  return !is_final;
}

class StandardFormat : public StepNameFormat {
 public:
  explicit StandardFormat(StandardNameOptions options)
      : options_(std::move(options)),
        prefix_(options_.step_prefix ? *options_.step_prefix + "_" : "") {}

  const StandardNameOptions& options() const { return options_; }
  bool is_standard() const override { return true; }
  bool single_host_load_and_broadcast() const override {
    return options_.single_host_load_and_broadcast;
  }
  const CommittedBy& committed_by() const override {
    return options_.committed_by;
  }

  std::string BuildName(int64_t step) const override {
    std::string digits = std::to_string(step);
    const size_t length = static_cast<size_t>(std::max(fixed_length(), 0));
    if (digits.size() < length) digits.insert(0, length - digits.size(), '0');
    return prefix_ + digits;
  }

  std::optional<int64_t> StepOf(std::string_view name) const override {
    if (!name.starts_with(prefix_)) return std::nullopt;
    name.remove_prefix(prefix_.size());
    if (!AreDigits(name)) return std::nullopt;
    // A leading zero is allowed only as padding to the fixed length.
    const size_t length = static_cast<size_t>(std::max(fixed_length(), 1));
    if (name.size() < length) return std::nullopt;
    if (name.size() > length && name[0] == '0') return std::nullopt;
    return NumberOf(name);
  }

  Result<std::vector<FoundStep>> FindAll(const std::string& root,
                                         ProcessGroup* group) const override {
    const bool is_shared = group != nullptr && group->size() > 1;
    if (!options_.single_host_load_and_broadcast || !is_shared) {
      return FindHere(root);
    }
    return FindOnceForAll(root, *group);
  }

  Result<FoundStep> FindStep(const std::string& root,
                             int64_t step) const override {
    HF_ASSIGN_OR_RETURN(const bool is_directory, LeadsToDirectory(Place(root)));
    if (!is_directory) {
      return NotFoundError("Invalid base_path: " + root +
                           " does not exist or is not a directory.");
    }
    const std::string name = BuildName(step);
    HF_ASSIGN_OR_RETURN(
        const bool is_there,
        CheckPathFinalized(root + "/" + name, options_.committed_by));
    if (is_there) return FoundStep{step, name};
    return NotFoundError(
        "No step path found with name=" + name + ", NameFormat=" + ToString() +
        " for step=" + std::to_string(step) + " under " + root + ".");
  }

  std::string ToString() const override {
    return "StandardNameFormat(\"" + BuildName(1234) + "\")";
  }

 private:
  int fixed_length() const {
    return options_.step_format_fixed_length.value_or(0);
  }

  Result<std::vector<FoundStep>> FindHere(const std::string& root) const {
    const LookScope scope{Place(root)};
    HF_ASSIGN_OR_RETURN(const auto names, NamesIn(scope.place()));
    std::vector<FoundStep> found;
    for (const std::string& name : names) {
      const std::optional<int64_t> step = StepOf(name);
      if (!step) continue;
      HF_ASSIGN_OR_RETURN(
          const bool is_there,
          CheckPlaceFinalized(scope.place() / name, options_.committed_by));
      if (is_there) found.push_back({*step, name});
    }
    return found;
  }

  Result<std::vector<FoundStep>> FindOnceForAll(const std::string& root,
                                                ProcessGroup& group) const {
    Result<std::vector<FoundStep>> found = std::vector<FoundStep>();
    if (group.rank() == 0) found = FindHere(root);
    const Meeting meeting{"steps", root};
    HF_RETURN_IF_ERROR(group.Agree(meeting, found.status()));
    HF_ASSIGN_OR_RETURN(const std::string steps,
                        group.Broadcast(meeting, 0, PackSteps(*found)));
    return UnpackSteps(steps, *this);
  }

  const StandardNameOptions options_;
  const std::string prefix_;
};

std::string Joined(
    const std::vector<std::shared_ptr<const StepNameFormat>>& formats) {
  std::string text;
  for (const auto& format : formats) {
    if (!text.empty()) text += ",";
    text += format->ToString();
  }
  return text;
}

class CompositeFormat : public StepNameFormat {
 public:
  CompositeFormat(std::shared_ptr<const StepNameFormat> write,
                  std::vector<std::shared_ptr<const StepNameFormat>> read)
      : write_(std::move(write)), read_(std::move(read)) {}

  std::string BuildName(int64_t step) const override {
    return write_->BuildName(step);
  }
  const CommittedBy& committed_by() const override {
    return write_->committed_by();
  }
  std::string ToString() const override {
    return "Composite([" + Joined(read_) + "])";
  }

  std::optional<int64_t> StepOf(std::string_view name) const override {
    for (const auto& format : read_) {
      if (const auto step = format->StepOf(name)) return step;
    }
    return std::nullopt;
  }

  Result<std::vector<FoundStep>> FindAll(const std::string& root,
                                         ProcessGroup* group) const override {
    std::vector<FoundStep> all;
    std::set<std::string> names;
    for (const auto& format : read_) {
      HF_ASSIGN_OR_RETURN(std::vector<FoundStep> found,
                          format->FindAll(root, group));
      for (FoundStep& step : found) {
        if (names.insert(step.name).second) all.push_back(std::move(step));
      }
    }
    return all;
  }

  Result<FoundStep> FindStep(const std::string& root,
                             int64_t step) const override {
    std::string problems;
    for (const auto& format : read_) {
      Result<FoundStep> found = format->FindStep(root, step);
      if (found.status().code() != StatusCode::kNotFound) return found;
      if (!problems.empty()) problems += "\n";
      problems += found.status().message();
    }
    return NotFoundError(problems);
  }

 private:
  const std::shared_ptr<const StepNameFormat> write_;
  const std::vector<std::shared_ptr<const StepNameFormat>> read_;
};

// Returns whether both are the same format: they make and find the same names.
bool IsSameFormat(const StepNameFormat& a, const StepNameFormat& b) {
  if (&a == &b) return true;
  if (!a.is_standard() || !b.is_standard()) return false;
  return a.ToString() == b.ToString() &&
         a.single_host_load_and_broadcast() ==
             b.single_host_load_and_broadcast() &&
         a.committed_by() == b.committed_by();
}

}  // namespace

Result<bool> CheckPathFinalized(const std::string& path,
                                const CommittedBy& rule) {
  return CheckPlaceFinalized(Place(path), rule);
}

Result<bool> CheckPlaceFinalized(const Place& place, const CommittedBy& rule) {
  if (ResolvedCommitMode(place, rule.mode) == CommitMode::kMarkerFile) {
    HF_ASSIGN_OR_RETURN(const bool has_marker,
                        LeadsToAnything(place / kCommitMarkerFile));
    if (has_marker || !rule.allow_legacy_atomic_rename) return has_marker;
  }
  if (IsTemporaryName(LastElement(place.path()))) return false;
  return LeadsToDirectory(place);
}

bool IsPathFinalized(const std::string& path, const CommittedBy& rule) {
  const Result<bool> is_finalized = CheckPathFinalized(path, rule);
  return is_finalized.ok() && *is_finalized;
}

Result<bool> CheckPathTemporary(const std::string& path,
                                const CommittedBy& rule) {
  return CheckPlaceTemporary(Place(path), rule);
}

bool IsPathTemporary(const std::string& path, const CommittedBy& rule) {
  const Result<bool> is_temporary = CheckPathTemporary(path, rule);
  return is_temporary.ok() && *is_temporary;
}

std::shared_ptr<const StepNameFormat> StandardNameFormat(
    const StandardNameOptions& options) {
  return std::make_shared<StandardFormat>(options);
}

Result<std::shared_ptr<const StepNameFormat>> CompositeNameFormat(
    std::shared_ptr<const StepNameFormat> write,
    std::vector<std::shared_ptr<const StepNameFormat>> read) {
  const bool is_found = std::any_of(
      read.begin(), read.end(),
      [&](const auto& format) { return IsSameFormat(*format, *write); });
  if (!is_found) {
    return InvalidArgumentError("write_name_format: " + write->ToString() +
                                " must be present in read_name_formats: [" +
                                Joined(read) + "].");
  }
  return std::shared_ptr<const StepNameFormat>(
      std::make_shared<CompositeFormat>(std::move(write), std::move(read)));
}

Result<std::shared_ptr<const StepNameFormat>>
SingleHostLoadAndBroadcastNameFormat(const StepNameFormat& format) {
  const auto* standard = dynamic_cast<const StandardFormat*>(&format);
  if (standard == nullptr) {
    return InvalidArgumentError(
        "single_host_load_and_broadcast is only supported for standard name "
        "formats. Got " +
        format.ToString() + ".");
  }
  StandardNameOptions options = standard->options();
  options.single_host_load_and_broadcast = true;
  return StandardNameFormat(options);
}

std::string BuildStepPath(const std::string& root, const StepNameFormat& format,
                          int64_t step) {
  return root + "/" + format.BuildName(step);
}

Result<std::string> FindStepPath(const std::string& root,
                                 const StepNameFormat& format, int64_t step,
                                 bool include_uncommitted) {
  if (include_uncommitted) {
    const std::string final_name = format.BuildName(step);
    HF_ASSIGN_OR_RETURN(const std::vector<std::string> temporaries,
                        TemporaryCheckpointNames(root, format.committed_by()));
    for (const std::string& name : temporaries) {
      if (FinalName(name).value_or(name) == final_name) {
        return root + "/" + name;
      }
    }
  }
  HF_ASSIGN_OR_RETURN(const FoundStep found, format.FindStep(root, step));
  return root + "/" + found.name;
}

Result<std::optional<FoundStep>> LatestStepIn(const std::string& root,
                                              const StepNameFormat& format) {
  HF_ASSIGN_OR_RETURN(const std::vector<FoundStep> found, format.FindAll(root));
  // If one step has two spellings, the later name wins, as in Orbax's sort.
  const auto latest = std::max_element(
      found.begin(), found.end(), [](const FoundStep& a, const FoundStep& b) {
        return a.step != b.step ? a.step < b.step : a.name < b.name;
      });
  if (latest == found.end()) return std::optional<FoundStep>();
  return std::optional<FoundStep>(*latest);
}

Result<FoundStep> StepOfCheckpointPath(const std::string& path,
                                       const StepNameFormat& format) {
  const std::string absolute = AbsolutePath(path);
  const std::string name(LastElement(absolute));
  const std::string root = absolute.substr(0, absolute.rfind('/'));
  HF_ASSIGN_OR_RETURN(const std::vector<FoundStep> found, format.FindAll(root));
  std::string names;
  for (const FoundStep& step : found) {
    if (step.name == name) return step;
    names += (names.empty() ? "'" : ", '") + step.name + "'";
  }
  return NotFoundError(
      "Failed to resolve step metadata of checkpoint path with NameFormat=" +
      format.ToString() + ", checkpoint path=" + absolute + ", path name(" +
      name + ") did not match with available step names: [" + names +
      "]. Please check if the given path is really a checkpoint path.");
}

Result<int64_t> StepFromCheckpointName(std::string_view name) {
  if (const auto step = NumberOf(name)) return *step;
  const size_t underscore = name.rfind('_');
  if (underscore != name.npos && underscore > 0) {
    const auto step = NumberOf(name.substr(underscore + 1));
    if (step) return *step;
  }
  // Takes the digits before the first suffix that is preceded by digits.
  for (size_t suffix = name.find(kTemporarySuffix); suffix != name.npos;
       suffix = name.find(kTemporarySuffix, suffix + 1)) {
    size_t start = suffix;
    while (start > 0 && name[start - 1] >= '0' && name[start - 1] <= '9') {
      --start;
    }
    if (const auto step = NumberOf(name.substr(start, suffix - start))) {
      return *step;
    }
  }
  return InvalidArgumentError("Unrecognized name format: " + std::string(name) +
                              ".");
}

Result<std::vector<std::string>> TemporaryCheckpointNames(
    const std::string& root, const CommittedBy& rule) {
  const LookScope scope{Place(root)};
  HF_ASSIGN_OR_RETURN(const auto names, NamesIn(scope.place()));
  std::vector<std::string> temporaries;
  for (const std::string& name : names) {
    HF_ASSIGN_OR_RETURN(const bool is_temporary,
                        CheckPlaceTemporary(scope.place() / name, rule));
    if (is_temporary) temporaries.push_back(name);
  }
  return temporaries;
}

}  // namespace holdfast
