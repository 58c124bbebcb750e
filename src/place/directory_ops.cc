#include "place/directory_ops.h"

#include "base/status_macros.h"
#include "place/bucket_tree.h"
#include "place/look.h"
#include "storage/url_path.h"

namespace holdfast {
namespace {

Result<BucketPlace> FindDirectory(const std::string& url) {
  return BucketRegistry::Default().Find(url);
}

DirectoryTree TreeOfObjects(const std::vector<ObjectEntry>& objects,
                            size_t prefix_byte_count) {
  std::vector<std::string> paths;
  for (const ObjectEntry& object : objects) {
    paths.push_back(object.key.substr(prefix_byte_count));
  }
  return TreeOfPaths(std::move(paths));
}

// Call this before something changes in a bucket: what was seen is then out of
// date.
void Forget(const BucketPlace& place) {
  if (const auto look = CurrentLook(place)) look->Forget();
}

}  // namespace

Result<PathKind> GetPathKind(const std::string& path) {
  if (!IsUrl(path)) return local::GetPathKind(path);
  HF_ASSIGN_OR_RETURN(const BucketPlace place, FindDirectory(path));
  if (const auto look = CurrentLook(place)) {
    HF_ASSIGN_OR_RETURN(const auto kind, look->Kind(place.key));
    if (kind) return *kind;
  }
  return KindInBucket(place);
}

Result<bool> LeadsToDirectory(const std::string& path) {
  if (!IsUrl(path)) return local::LeadsToDirectory(path);
  HF_ASSIGN_OR_RETURN(const PathKind kind, GetPathKind(path));
  return kind == PathKind::kDirectory;
}

Result<bool> LeadsToAnything(const std::string& path) {
  if (!IsUrl(path)) return local::LeadsToAnything(path);
  HF_ASSIGN_OR_RETURN(const PathKind kind, GetPathKind(path));
  return kind != PathKind::kMissing;
}

Result<std::vector<std::string>> ListDirectory(const std::string& path) {
  if (!IsUrl(path)) return local::ListDirectory(path);
  HF_ASSIGN_OR_RETURN(const BucketPlace place, FindDirectory(path));
  if (const auto look = CurrentLook(place)) {
    HF_ASSIGN_OR_RETURN(auto names, look->Names(place.key));
    if (names) return *std::move(names);
  }
  return NamesInBucket(place);
}

Result<DirectoryTree> ListTree(const std::string& path) {
  if (!IsUrl(path)) return local::ListTree(path);
  HF_ASSIGN_OR_RETURN(const BucketPlace place, FindDirectory(path));
  if (const auto look = CurrentLook(place)) {
    HF_ASSIGN_OR_RETURN(const auto objects, look->Below(place.prefix()));
    if (objects) return TreeOfObjects(*objects, place.prefix().size());
  }
  return TreeInBucket(place);
}

Status CreateDirectoryNew(const std::string& path) {
  if (!IsUrl(path)) return local::CreateDirectoryNew(path);
  HF_ASSIGN_OR_RETURN(const BucketPlace place, FindDirectory(path));
  Forget(place);
  return CheckFreeInBucket(place);
}

Status SetPermissions(const std::string& path, uint32_t mode) {
  return IsUrl(path) ? Status() : local::SetPermissions(path, mode);
}

Status SyncDirectory(const std::string& path) {
  return IsUrl(path) ? Status() : local::SyncDirectory(path);
}

Status SyncFile(const std::string& path) {
  return IsUrl(path) ? Status() : local::SyncFile(path);
}

Status PublishDirectory(const std::string& source, const std::string& target,
                        const MayGoOn& may_go_on) {
  if (!IsUrl(source) && !IsUrl(target)) {
    return local::PublishDirectory(source, target);
  }
  HF_ASSIGN_OR_RETURN(const BucketPlace from, FindDirectory(source));
  HF_ASSIGN_OR_RETURN(const BucketPlace to, FindDirectory(target));
  Forget(from);
  Forget(to);
  return PublishInBucket(from, to, may_go_on);
}

Status ExchangeDirectories(const std::string& a, const std::string& b) {
  if (!IsUrl(a)) return local::ExchangeDirectories(a, b);
  return UnimplementedError("exchange " + a + " and " + b +
                            ": object stores cannot");
}

Status RemoveTree(const std::string& path, const MayGoOn& may_go_on) {
  return RemoveAllBut(path, {}, may_go_on);
}

Status RemoveAllBut(const std::string& path,
                    const std::vector<std::string>& kept_names,
                    const MayGoOn& may_go_on) {
  if (IsUrl(path)) {
    HF_ASSIGN_OR_RETURN(const BucketPlace place, FindDirectory(path));
    Forget(place);
    return RemoveFromBucket(place, kept_names, may_go_on);
  }
  if (kept_names.empty()) return local::RemoveTree(path);
  return UnimplementedError("remove all but some files of " + path +
                            ": only in object stores");
}

}  // namespace holdfast
