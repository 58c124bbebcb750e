#include "tools/view/bucket_sources.h"

#include "engine/commit/server_copy.h"
#include "ground/base/status_macros.h"
#include "stores/place/bucket_listing.h"
#include "tools/view/source_links.h"

namespace holdfast {

Status CheckSameBucket(const Place& source, const Place& target) {
  const std::string what =
      "view of " + source.path() + " at " + target.path() + ": ";
  if (source.is_remote() != target.is_remote()) {
    return UnimplementedError(
        what +
        "one is in a file system and the other is not, so that nothing can be "
        "referred to; convert it instead (holdfast convert), or copy the "
        "source there first (holdfast cp)");
  }
  if (!source.is_remote()) return Status();
  HF_ASSIGN_OR_RETURN(const BucketPlace from, source.InBucket());
  HF_ASSIGN_OR_RETURN(const BucketPlace to, target.InBucket());
  if (from.bucket == to.bucket) return Status();
  return UnimplementedError(
      what +
      "a server copies within one bucket only; convert it instead (holdfast "
      "convert), or copy the source there first (holdfast cp)");
}

Result<ObjectEntry> DescribeObject(const Place& place) {
  HF_ASSIGN_OR_RETURN(const BucketPlace at, place.InBucket());
  return at.bucket->Head(at.key);
}

Status CopySources(const Place& directory, const std::vector<SourceFile>& rows,
                   const std::vector<std::string>& versions,
                   const CancelToken* cancel) {
  HF_ASSIGN_OR_RETURN(const BucketPlace to, directory.InBucket());
  std::vector<ObjectCopy> copies;
  for (size_t i = 0; i < rows.size(); ++i) {
    HF_ASSIGN_OR_RETURN(const BucketPlace from, Place(rows[i].from).InBucket());
    copies.push_back({from.key, versions[i], to.prefix() + rows[i].path});
  }
  return CopyObjects(directory, copies, cancel);
}

Status CopyCompanionObjects(const Place& from, const Place& directory,
                            const CancelToken* cancel) {
  HF_ASSIGN_OR_RETURN(const BucketPlace source, from.InBucket());
  HF_ASSIGN_OR_RETURN(const BucketPlace to, directory.InBucket());
  HF_ASSIGN_OR_RETURN(const DirectoryEntries entries,
                      ListEntries(*source.bucket, source.prefix()));
  std::vector<ObjectCopy> copies;
  for (const ObjectEntry& file : entries.files) {
    const std::string name(NameOfKey(file.key));
    if (!IsCompanion(name, file.byte_count)) continue;
    copies.push_back({file.key, file.version, to.prefix() + name});
  }
  return CopyObjects(directory, copies, cancel);
}

}  // namespace holdfast
