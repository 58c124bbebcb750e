#include "view/bucket_sources.h"

#include <algorithm>

#include "base/executor.h"
#include "base/status_macros.h"
#include "checkpoint/commit/lease.h"
#include "place/bucket_listing.h"
#include "view/source_links.h"

namespace holdfast {
namespace {

// The server does the copying; this many copies are asked for at once.
constexpr size_t kCopiesInFlight = 16;

struct ObjectCopy {
  std::string from;  // a key
  std::string version;
  std::string to;
};

// Their names are the same in every view of the source: a save that was taken
// over must not put its own over a rival's.
Status CopyObjects(const Place& directory, Bucket& bucket,
                   const std::vector<ObjectCopy>& copies,
                   const CancelToken* cancel) {
  Executor executor(
      static_cast<int>(std::clamp<size_t>(copies.size(), 1, kCopiesInFlight)));
  return executor.ParallelFor(
      copies.size(),
      [&](size_t i, int) -> Status {
        const ObjectCopy& copy = copies[i];
        HF_RETURN_IF_ERROR(
            CheckLeasesAbove(directory.path(), kLeaseGuardSeconds));
        return bucket
            .Copy(copy.from, copy.to, Condition::Absent(), copy.version)
            .status();
      },
      cancel);
}

}  // namespace

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
  return CopyObjects(directory, *to.bucket, copies, cancel);
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
  return CopyObjects(directory, *to.bucket, copies, cancel);
}

}  // namespace holdfast
