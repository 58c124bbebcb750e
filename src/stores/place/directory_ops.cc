#include "stores/place/directory_ops.h"

#include "ground/base/status_macros.h"
#include "stores/place/bucket_tree.h"
#include "stores/place/look.h"
#include "stores/storage/nobodys_files.h"

namespace holdfast {
namespace {

DirectoryTree TreeOfObjects(const std::vector<ObjectEntry>& objects,
                            size_t prefix_byte_count) {
  std::vector<std::string> paths;
  for (const ObjectEntry& object : objects) {
    paths.push_back(object.key.substr(prefix_byte_count));
  }
  return TreeOfPaths(std::move(paths));
}

// Clears the Look before a change in a bucket makes it outdated.
void Forget(const Place& place) {
  if (place.look() != nullptr) place.look()->Forget();
}

}  // namespace

Result<PathKind> GetPathKind(const Place& place) {
  if (!place.is_remote()) return local::GetPathKind(place.path());
  HF_ASSIGN_OR_RETURN(const BucketPlace at, place.InBucket());
  if (Look* const look = place.look().get()) {
    HF_ASSIGN_OR_RETURN(const auto kind, look->Kind(at.key));
    if (kind) return *kind;
  }
  return KindInBucket(at);
}

Result<bool> LeadsToDirectory(const Place& place) {
  if (!place.is_remote()) return local::LeadsToDirectory(place.path());
  HF_ASSIGN_OR_RETURN(const PathKind kind, GetPathKind(place));
  return kind == PathKind::kDirectory;
}

Result<bool> LeadsToAnything(const Place& place) {
  if (!place.is_remote()) return local::LeadsToAnything(place.path());
  HF_ASSIGN_OR_RETURN(const PathKind kind, GetPathKind(place));
  return kind != PathKind::kMissing;
}

bool IsThere(const Place& place) {
  const Result<bool> is_there = LeadsToAnything(place);
  return is_there.ok() && *is_there;
}

namespace {

Result<std::vector<std::string>> NamesThere(const Place& place) {
  HF_ASSIGN_OR_RETURN(const BucketPlace at, place.InBucket());
  if (Look* const look = place.look().get()) {
    HF_ASSIGN_OR_RETURN(auto names, look->Names(at.key));
    if (names) return *std::move(names);
  }
  return NamesInBucket(at);
}

}  // namespace

Result<std::vector<std::string>> ListDirectory(const Place& place) {
  if (!place.is_remote()) return local::ListDirectory(place.path());
  HF_ASSIGN_OR_RETURN(std::vector<std::string> names, NamesThere(place));
  std::erase_if(names, [](const std::string& name) {
    return IsNobodysFile(name) || IsNobodysDirectory(name);
  });
  return names;
}

Result<DirectoryTree> ListTree(const Place& place) {
  if (!place.is_remote()) return local::ListTree(place.path());
  HF_ASSIGN_OR_RETURN(const BucketPlace at, place.InBucket());
  if (Look* const look = place.look().get()) {
    HF_ASSIGN_OR_RETURN(const auto objects, look->Below(at.prefix()));
    if (objects) return TreeOfObjects(*objects, at.prefix().size());
  }
  return TreeInBucket(at);
}

Status CreateDirectoryNew(const Place& place) {
  if (!place.is_remote()) return local::CreateDirectoryNew(place.path());
  HF_ASSIGN_OR_RETURN(const BucketPlace at, place.InBucket());
  Forget(place);
  return CheckFreeInBucket(at);
}

Status SetPermissions(const Place& place, uint32_t mode) {
  return place.is_remote() ? Status()
                           : local::SetPermissions(place.path(), mode);
}

Status SyncDirectory(const Place& place) {
  return place.needs_sync() ? local::SyncDirectory(place.path()) : Status();
}

Status SyncFile(const Place& place) {
  return place.needs_sync() ? local::SyncFile(place.path()) : Status();
}

Status PublishDirectory(const Place& source, const Place& target,
                        const MayGoOn& may_go_on) {
  if (source.can_rename() && target.can_rename()) {
    return local::PublishDirectory(source.path(), target.path());
  }
  HF_ASSIGN_OR_RETURN(const BucketPlace from, source.InBucket());
  HF_ASSIGN_OR_RETURN(const BucketPlace to, target.InBucket());
  Forget(source);
  Forget(target);
  return PublishInBucket(from, to, may_go_on);
}

Status ExchangeDirectories(const Place& a, const Place& b) {
  if (a.can_rename()) return local::ExchangeDirectories(a.path(), b.path());
  return UnimplementedError("exchange " + a.path() + " and " + b.path() +
                            ": object stores cannot");
}

Status RemoveTree(const Place& place, const MayGoOn& may_go_on) {
  return RemoveAllBut(place, {}, may_go_on);
}

Status RemoveAllBut(const Place& place,
                    const std::vector<std::string>& kept_names,
                    const MayGoOn& may_go_on) {
  if (place.is_remote()) {
    HF_ASSIGN_OR_RETURN(const BucketPlace at, place.InBucket());
    Forget(place);
    return RemoveFromBucket(at, kept_names, may_go_on);
  }
  if (kept_names.empty()) return local::RemoveTree(place.path());
  return UnimplementedError("remove all but some files of " + place.path() +
                            ": only in object stores");
}

}  // namespace holdfast
