#include "stores/place/bucket_tree.h"

#include <algorithm>
#include <set>
#include <utility>

#include "ground/base/executor.h"
#include "ground/base/status_macros.h"
#include "stores/place/bucket_listing.h"
#include "stores/place/well_known_names.h"

namespace holdfast {
namespace {

// The maximum number of listed keys that are held in memory during deletion.
constexpr size_t kDeleteBatchCount = 1000;

// The number of copies requested from the server concurrently.
constexpr int kCopiesInFlight = 16;
constexpr size_t kCopyGroupCount = 64;

bool IsCommitMarker(std::string_view key) {
  return NameOfKey(key) == kPlaceCommitMarker;
}

bool IsSaveLease(std::string_view key) { return NameOfKey(key) == kSaveLease; }

Status NothingThere(const BucketPlace& place) {
  return NotFoundError("directory " + place.url() +
                       ": no object has a key below it");
}

Result<bool> HasObjectsBelow(const BucketPlace& place) {
  HF_ASSIGN_OR_RETURN(
      const ListPage page,
      place.bucket->List({.prefix = place.prefix(), .entry_count_max = 1}));
  return !page.objects.empty();
}

Result<std::vector<ObjectEntry>> AllObjects(const BucketPlace& place) {
  std::vector<ObjectEntry> objects;
  HF_RETURN_IF_ERROR(ForEachObject(*place.bucket, place.prefix(),
                                   [&](const ObjectEntry& object) {
                                     objects.push_back(object);
                                     return Status();
                                   }));
  return objects;
}

// Fails unless the place is a directory: only a directory can be removed or
// moved as a whole.
Status CheckIsDirectory(const BucketPlace& place, std::string_view what) {
  HF_ASSIGN_OR_RETURN(const local::PathKind kind, KindInBucket(place));
  if (kind == local::PathKind::kDirectory) return {};
  if (kind == local::PathKind::kMissing) return NothingThere(place);
  return FailedPreconditionError(std::string(what) + " " + place.url() +
                                 ": is an object, not a directory");
}

Status Ask(const std::function<Status()>& may_go_on) {
  return may_go_on ? may_go_on() : Status();
}

class KeyDeleter {
 public:
  KeyDeleter(Bucket& bucket, const std::function<Status()>& may_go_on)
      : bucket_(bucket), may_go_on_(may_go_on) {}

  Status Add(std::string key) {
    keys_.push_back(std::move(key));
    return keys_.size() < kDeleteBatchCount ? Status() : Flush();
  }
  Status Flush() {
    if (keys_.empty()) return {};
    HF_RETURN_IF_ERROR(Ask(may_go_on_));
    const Status status = bucket_.DeleteAll(keys_);
    keys_.clear();
    return status;
  }

 private:
  Bucket& bucket_;
  const std::function<Status()>& may_go_on_;
  std::vector<std::string> keys_;
};

// Copies the objects in groups, and calls `may_go_on` between the groups.
Status CopyAll(Bucket& bucket, const std::vector<std::string>& keys,
               const std::string& source_prefix,
               const std::string& target_prefix,
               const std::function<Status()>& may_go_on) {
  Executor executor(
      static_cast<int>(std::clamp<size_t>(keys.size(), 1, kCopiesInFlight)));
  for (size_t done = 0; done < keys.size(); done += kCopyGroupCount) {
    HF_RETURN_IF_ERROR(Ask(may_go_on));
    const size_t count = std::min(kCopyGroupCount, keys.size() - done);
    HF_RETURN_IF_ERROR(executor.ParallelFor(count, [&](size_t i, int) {
      const std::string& key = keys[done + i];
      return bucket.Copy(key, target_prefix + key.substr(source_prefix.size()))
          .status();
    }));
  }
  return {};
}

}  // namespace

Result<local::PathKind> KindInBucket(const BucketPlace& place) {
  // Where listing is impossible, there are only files.
  const bool can_list = place.bucket->traits().can_list;
  const Result<bool> has_below =
      can_list ? HasObjectsBelow(place) : Result<bool>(false);
  if (has_below.ok() && *has_below) return local::PathKind::kDirectory;
  // A bucket's root is a directory even if it is empty.
  if (place.key.empty()) {
    if (has_below.ok()) return local::PathKind::kDirectory;
    if (has_below.status().code() != StatusCode::kNotFound) {
      return has_below.status();
    }
    return local::PathKind::kMissing;
  }
  const Result<ObjectEntry> object = place.bucket->Head(place.key);
  if (object.ok()) return local::PathKind::kFile;
  // Without permission to list, the server reports a missing object as
  // forbidden.
  if (!has_below.ok()) return has_below.status();
  if (object.status().code() == StatusCode::kNotFound) {
    return local::PathKind::kMissing;
  }
  return object.status();
}

Result<std::vector<std::string>> NamesInBucket(const BucketPlace& place) {
  HF_ASSIGN_OR_RETURN(DirectoryEntries entries,
                      ListEntries(*place.bucket, place.prefix()));
  if (entries.empty() && !place.key.empty()) return NothingThere(place);
  std::vector<std::string> names = std::move(entries.directories);
  for (const ObjectEntry& file : entries.files) {
    names.emplace_back(NameOfKey(file.key));
  }
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

local::DirectoryTree TreeOfPaths(std::vector<std::string> paths) {
  local::DirectoryTree tree;
  std::set<std::string> directories;
  for (const std::string& path : paths) {
    for (size_t slash = path.rfind('/');
         slash != std::string::npos && slash > 0;
         slash = path.rfind('/', slash - 1)) {
      // All parents of a known directory are already in the set.
      if (!directories.insert(path.substr(0, slash)).second) break;
    }
  }
  std::erase_if(
      paths, [](const std::string& path) { return IsDirectoryMarker(path); });
  tree.files = std::move(paths);
  tree.directories.assign(directories.rbegin(), directories.rend());
  std::stable_sort(tree.directories.begin(), tree.directories.end(),
                   [](const std::string& a, const std::string& b) {
                     return std::count(a.begin(), a.end(), '/') >
                            std::count(b.begin(), b.end(), '/');
                   });
  return tree;
}

Result<local::DirectoryTree> TreeInBucket(const BucketPlace& place) {
  const std::string prefix = place.prefix();
  std::vector<std::string> paths;
  bool is_there = place.key.empty();
  HF_RETURN_IF_ERROR(
      ForEachObject(*place.bucket, prefix, [&](const ObjectEntry& object) {
        is_there = true;
        if (object.key.size() > prefix.size()) {
          paths.push_back(object.key.substr(prefix.size()));
        }
        return Status();
      }));
  if (!is_there) return NothingThere(place);
  return TreeOfPaths(std::move(paths));
}

Status WalkBucket(const BucketPlace& place,
                  const std::function<void(const local::WalkedFile&)>& fn) {
  const std::string prefix = place.prefix();
  bool is_there = place.key.empty();
  HF_RETURN_IF_ERROR(
      ForEachObject(*place.bucket, prefix, [&](const ObjectEntry& object) {
        is_there = true;
        if (!IsDirectoryMarker(object.key)) {
          fn({object.key.substr(prefix.size()), object.byte_count});
        }
        return Status();
      }));
  return is_there ? Status() : NothingThere(place);
}

Status CheckFreeInBucket(const BucketPlace& place) {
  HF_ASSIGN_OR_RETURN(const local::PathKind kind, KindInBucket(place));
  if (kind == local::PathKind::kMissing) return {};
  return AlreadyExistsError("create directory " + place.url() +
                            ": something is there already");
}

Status PublishInBucket(const BucketPlace& source, const BucketPlace& target,
                       const std::function<Status()>& may_go_on) {
  if (source.bucket != target.bucket) {
    return InvalidArgumentError("move " + source.url() + " to " + target.url() +
                                ": the two are not in one bucket");
  }
  const std::string from = source.prefix();
  const std::string to = target.prefix();
  if (from.empty() || to.empty() || from.starts_with(to) ||
      to.starts_with(from)) {
    return InvalidArgumentError("move " + source.url() + " to " + target.url() +
                                ": one lies in the other");
  }
  HF_RETURN_IF_ERROR(CheckIsDirectory(source, "move"));
  HF_ASSIGN_OR_RETURN(const std::vector<ObjectEntry> in_the_way,
                      AllObjects(target));
  for (const ObjectEntry& object : in_the_way) {
    if (object.key == to + std::string(kSaveLease)) continue;
    return AlreadyExistsError("move " + source.url() + " to " + target.url() +
                              ": " + target.bucket->UrlOf(object.key) +
                              " is there already");
  }
  HF_ASSIGN_OR_RETURN(const std::vector<ObjectEntry> objects,
                      AllObjects(source));
  std::vector<std::string> markers, others;
  for (const ObjectEntry& object : objects) {
    // The lease belongs to the saver at the source, so it stays there.
    if (object.key == from + std::string(kSaveLease)) continue;
    (IsCommitMarker(object.key) ? markers : others).push_back(object.key);
  }
  Bucket& bucket = *source.bucket;
  // Data first, markers last: the target becomes a checkpoint only when it is
  // complete. Then the source loses its markers first, so that it stops being a
  // checkpoint before it loses data.
  HF_RETURN_IF_ERROR(CopyAll(bucket, others, from, to, may_go_on));
  HF_RETURN_IF_ERROR(CopyAll(bucket, markers, from, to, may_go_on));
  HF_RETURN_IF_ERROR(Ask(may_go_on));
  HF_RETURN_IF_ERROR(bucket.DeleteAll(markers));
  KeyDeleter deleter(bucket, may_go_on);
  for (std::string& key : others) {
    HF_RETURN_IF_ERROR(deleter.Add(std::move(key)));
  }
  return deleter.Flush();
}

Status RemoveFromBucket(const BucketPlace& place,
                        const std::vector<std::string>& kept_names,
                        const std::function<Status()>& may_go_on) {
  const std::string prefix = place.prefix();
  if (prefix.empty()) {
    return InvalidArgumentError("remove " + place.url() +
                                ": is a whole bucket");
  }
  Bucket& bucket = *place.bucket;
  std::set<std::string> kept;
  for (const std::string& name : kept_names) kept.insert(prefix + name);
  std::vector<std::string> markers, leases, others;
  HF_RETURN_IF_ERROR(
      ForEachObject(bucket, prefix, [&](const ObjectEntry& object) {
        if (kept.contains(object.key)) return Status();
        (IsCommitMarker(object.key) ? markers
         : IsSaveLease(object.key)  ? leases
                                    : others)
            .push_back(object.key);
        return Status();
      }));
  if (markers.empty() && leases.empty() && others.empty()) {
    if (!kept.empty()) return {};
    return CheckIsDirectory(place, "remove");
  }
  HF_RETURN_IF_ERROR(Ask(may_go_on));
  if (!markers.empty()) HF_RETURN_IF_ERROR(bucket.DeleteAll(markers));
  KeyDeleter deleter(bucket, may_go_on);
  for (std::string& key : others) {
    HF_RETURN_IF_ERROR(deleter.Add(std::move(key)));
  }
  HF_RETURN_IF_ERROR(deleter.Flush());
  // Leases are removed last, so that a cleaner that finds a half-removed
  // directory sees which saver it belonged to.
  return leases.empty() ? Status() : bucket.DeleteAll(leases);
}

}  // namespace holdfast
