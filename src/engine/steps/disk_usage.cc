// MeasureDiskUsage: assigns the bytes on disk to steps, items and kinds of
// files.
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <set>
#include <tuple>
#include <utility>

#include "engine/commit/layout.h"
#include "engine/format/directory_names.h"
#include "ground/base/executor.h"
#include "ground/base/status_macros.h"
#include "holdfast/steps/steps.h"
#include "stores/place/directory_ops.h"
#include "stores/place/file_walk.h"
#include "stores/place/place.h"
#include "stores/storage/path_parts.h"
#include "stores/storage/url_path.h"

namespace holdfast {
namespace {

using Inode = std::pair<uint64_t, uint64_t>;

// One entry of the root.
struct RootEntry {
  enum class Kind : uint8_t { kStep, kTemporary, kTrash, kOther };
  std::string name;
  Kind kind = Kind::kOther;
  bool is_directory = false;
  std::vector<WalkedFile> files;
};

bool IsMetadataFile(std::string_view name) {
  constexpr std::array kNames = {kTreeMetadataFile,
                                 kCheckpointMetadataFile,
                                 kShardingFile,
                                 kCommitMarkerFile,
                                 kV1MarkerFile,
                                 kRootMetadataFile,
                                 std::string_view(".zarray"),
                                 std::string_view(".zgroup"),
                                 std::string_view(".zattrs"),
                                 std::string_view("zarr.json")};
  return std::find(kNames.begin(), kNames.end(), name) != kNames.end();
}

// Returns the kind of a file. `path` is relative to the step.
std::string_view KindOfFile(std::string_view path) {
  const std::string_view name = LastPart(path);
  if (name == kDigestFile || name == kFingerprintsFile) return "checksums";
  if (name == kManifestFile) return "manifest";
  if (IsMetadataFile(name)) return "metadata";
  const bool is_array_metadata =
      path.find(kArrayMetadatasDirectory) != path.npos;
  return is_array_metadata ? "metadata" : "data";
}

// Returns the directory of an item in a composite; "" for files directly in the
// step, and for a step that is a single item.
std::string_view ItemOfFile(std::string_view path, bool is_one_item) {
  const size_t slash = path.find('/');
  if (is_one_item || slash == path.npos) return "";
  return path.substr(0, slash);
}

bool IsOneItem(const std::vector<WalkedFile>& files) {
  return std::any_of(files.begin(), files.end(), [](const WalkedFile& file) {
    return file.path == kTreeMetadataFile || file.path == kManifestFile ||
           file.path == kAggregateFile;
  });
}

Result<std::vector<RootEntry>> EntriesOf(const std::string& root) {
  HF_ASSIGN_OR_RETURN(const std::vector<std::string> names,
                      ListDirectory(Place(root)));
  std::vector<RootEntry> entries;
  for (const std::string& name : names) {
    HF_ASSIGN_OR_RETURN(const PathKind kind,
                        GetPathKind(Place(root + "/" + name)));
    RootEntry entry{name, RootEntry::Kind::kOther, false, {}};
    entry.is_directory = kind == PathKind::kDirectory;
    if (entry.is_directory && name == kTrashDirectoryName) {
      entry.kind = RootEntry::Kind::kTrash;
    } else if (entry.is_directory && IsTemporaryName(name)) {
      entry.kind = RootEntry::Kind::kTemporary;
    } else if (entry.is_directory && StepOfName(name)) {
      entry.kind = RootEntry::Kind::kStep;
    }
    if (entry.is_directory || kind == PathKind::kFile) {
      entries.push_back(std::move(entry));
    }
  }
  // Steps come first and are sorted by number, so that shared files count for
  // the oldest step.
  std::stable_sort(entries.begin(), entries.end(),
                   [](const RootEntry& a, const RootEntry& b) {
                     if (a.kind != b.kind) return a.kind < b.kind;
                     return StepOfName(a.name) < StepOfName(b.name);
                   });
  return entries;
}

// Adds the size of a file that is directly in the root.
Status AddLooseFile(const Place& root, RootEntry& entry) {
  if (root.is_remote()) {
    const Result<ObjectInfo> object = root.OpenStore()->Stat(entry.name);
    if (object.ok()) entry.files.push_back({entry.name, object->byte_count});
    return Status();
  }
  struct stat info;
  if (::lstat((root / entry.name).path().c_str(), &info) != 0) return Status();
  entry.files.push_back({entry.name, static_cast<uint64_t>(info.st_size),
                         info.st_dev, info.st_ino, info.st_nlink});
  return Status();
}

// Returns the entries of a root. A checkpoint that is not a root is treated as
// the only step of a root, with the name ".".
Result<std::vector<RootEntry>> EntriesOfPath(const std::string& path) {
  const auto place = FindCheckpoint(Place(path), {});
  if (!place.ok() || place->info.path != path) return EntriesOf(path);
  return std::vector<RootEntry>{{".", RootEntry::Kind::kStep, true, {}}};
}

Status WalkEntry(const std::string& root, RootEntry& entry) {
  const auto keep = [&](const WalkedFile& file) {
    entry.files.push_back(file);
  };
  if (!entry.is_directory) return AddLooseFile(Place(root), entry);
  const Status walked = WalkFiles(
      Place(entry.name == "." ? root : root + "/" + entry.name), keep);
  // Another process removed it in the meantime.
  return walked.code() == StatusCode::kNotFound ? Status() : walked;
}

class UsageCounter {
 public:
  void Add(const RootEntry& entry) {
    const bool is_one_item = IsOneItem(entry.files);
    std::vector<UsageRow> rows;
    for (const WalkedFile& file : entry.files) {
      // A file with several names is counted where it is seen first.
      const bool is_new =
          file.link_count == 1 ||
          counted_.insert(Inode{file.device, file.inode}).second;
      (is_new ? usage_.total_bytes : usage_.shared_bytes) += file.byte_count;
      if (entry.kind != RootEntry::Kind::kStep) {
        if (is_new) Total(entry.kind) += file.byte_count;
        continue;
      }
      UsageRow& row =
          RowOf(rows, entry.name, ItemOfFile(file.path, is_one_item),
                KindOfFile(file.path));
      ++row.file_count;
      (is_new ? row.bytes : row.shared_bytes) += file.byte_count;
    }
    std::sort(rows.begin(), rows.end(),
              [](const UsageRow& a, const UsageRow& b) {
                return std::tie(a.item, a.kind) < std::tie(b.item, b.kind);
              });
    for (UsageRow& row : rows) usage_.rows.push_back(std::move(row));
  }

  DiskUsage& usage() { return usage_; }

 private:
  uint64_t& Total(RootEntry::Kind kind) {
    if (kind == RootEntry::Kind::kTemporary) return usage_.temporary_bytes;
    if (kind == RootEntry::Kind::kTrash) return usage_.trash_bytes;
    return usage_.other_bytes;
  }

  static UsageRow& RowOf(std::vector<UsageRow>& rows, const std::string& step,
                         std::string_view item, std::string_view kind) {
    for (UsageRow& row : rows) {
      if (row.item == item && row.kind == kind) return row;
    }
    rows.push_back({step, std::string(item), std::string(kind)});
    return rows.back();
  }

  std::set<Inode> counted_;
  DiskUsage usage_;
};

}  // namespace

Result<DiskUsage> MeasureDiskUsage(const std::string& root) {
  const std::string base = AbsolutePath(root);
  HF_ASSIGN_OR_RETURN(const PathKind kind, GetPathKind(Place(base)));
  if (kind == PathKind::kMissing) {
    return NotFoundError("du " + base + ": no such directory");
  }
  HF_ASSIGN_OR_RETURN(std::vector<RootEntry> entries, EntriesOfPath(base));
  Executor executor;
  HF_RETURN_IF_ERROR(executor.ParallelFor(entries.size(), [&](size_t i, int) {
    return WalkEntry(base, entries[i]);
  }));
  UsageCounter counter;
  for (const RootEntry& entry : entries) counter.Add(entry);
  return std::move(counter.usage());
}

}  // namespace holdfast
