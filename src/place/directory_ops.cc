#include "place/directory_ops.h"

#include "storage/url_path.h"

namespace holdfast {
namespace {

Status NoRemoteYet(const std::string& path) {
  return UnimplementedError("directory " + path + ": no store for it");
}

}  // namespace

Result<PathKind> GetPathKind(const std::string& path) {
  if (!IsUrl(path)) return local::GetPathKind(path);
  return NoRemoteYet(path);
}

Result<bool> LeadsToDirectory(const std::string& path) {
  if (!IsUrl(path)) return local::LeadsToDirectory(path);
  return NoRemoteYet(path);
}

Result<bool> LeadsToAnything(const std::string& path) {
  if (!IsUrl(path)) return local::LeadsToAnything(path);
  return NoRemoteYet(path);
}

Result<std::vector<std::string>> ListDirectory(const std::string& path) {
  if (!IsUrl(path)) return local::ListDirectory(path);
  return NoRemoteYet(path);
}

Result<DirectoryTree> ListTree(const std::string& path) {
  if (!IsUrl(path)) return local::ListTree(path);
  return NoRemoteYet(path);
}

Status CreateDirectoryNew(const std::string& path) {
  if (!IsUrl(path)) return local::CreateDirectoryNew(path);
  return NoRemoteYet(path);
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
  if (!IsUrl(source)) return local::PublishDirectory(source, target);
  return NoRemoteYet(source);
}

Status ExchangeDirectories(const std::string& a, const std::string& b) {
  if (!IsUrl(a)) return local::ExchangeDirectories(a, b);
  return NoRemoteYet(a);
}

Status RemoveTree(const std::string& path) {
  if (!IsUrl(path)) return local::RemoveTree(path);
  return NoRemoteYet(path);
}

}  // namespace holdfast
