#include "place/directory_ops.h"

#include "base/status_macros.h"
#include "place/bucket_tree.h"
#include "storage/url_path.h"

namespace holdfast {
namespace {

Result<BucketPlace> Find(const std::string& url) {
  return BucketRegistry::Default().Find(url);
}

}  // namespace

Result<PathKind> GetPathKind(const std::string& path) {
  if (!IsUrl(path)) return local::GetPathKind(path);
  HF_ASSIGN_OR_RETURN(const BucketPlace place, Find(path));
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
  HF_ASSIGN_OR_RETURN(const BucketPlace place, Find(path));
  return NamesInBucket(place);
}

Result<DirectoryTree> ListTree(const std::string& path) {
  if (!IsUrl(path)) return local::ListTree(path);
  HF_ASSIGN_OR_RETURN(const BucketPlace place, Find(path));
  return TreeInBucket(place);
}

Status CreateDirectoryNew(const std::string& path) {
  if (!IsUrl(path)) return local::CreateDirectoryNew(path);
  HF_ASSIGN_OR_RETURN(const BucketPlace place, Find(path));
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

Status PublishDirectory(const std::string& source, const std::string& target) {
  if (!IsUrl(source) && !IsUrl(target)) {
    return local::PublishDirectory(source, target);
  }
  HF_ASSIGN_OR_RETURN(const BucketPlace from, Find(source));
  HF_ASSIGN_OR_RETURN(const BucketPlace to, Find(target));
  return PublishInBucket(from, to);
}

Status ExchangeDirectories(const std::string& a, const std::string& b) {
  if (!IsUrl(a)) return local::ExchangeDirectories(a, b);
  return UnimplementedError("exchange " + a + " and " + b +
                            ": object stores cannot");
}

Status RemoveTree(const std::string& path) { return RemoveAllBut(path, {}); }

Status RemoveAllBut(const std::string& path,
                    const std::vector<std::string>& kept_names) {
  if (IsUrl(path)) {
    HF_ASSIGN_OR_RETURN(const BucketPlace place, Find(path));
    return RemoveFromBucket(place, kept_names);
  }
  if (kept_names.empty()) return local::RemoveTree(path);
  return UnimplementedError("remove all but some files of " + path +
                            ": only in object stores");
}

}  // namespace holdfast
