#include "engine/commit/server_copy.h"

#include <algorithm>

#include "engine/commit/lease.h"
#include "engine/commit/remote_commit.h"
#include "engine/format/directory_names.h"
#include "ground/base/executor.h"
#include "ground/base/status_macros.h"
#include "stores/place/bucket_listing.h"
#include "stores/place/directory_ops.h"
#include "stores/place/well_known_names.h"

namespace holdfast {
namespace {

// The number of copies requested from the server concurrently.
constexpr size_t kCopiesInFlight = 16;

// Copies of all files of a checkpoint, except the files that its commit writes.
struct CheckpointCopies {
  std::vector<ObjectCopy> copies;
  WrittenSizes sizes;
};

Result<CheckpointCopies> CopiesOf(const BucketPlace& from,
                                  const BucketPlace& to) {
  CheckpointCopies found;
  HF_RETURN_IF_ERROR(ForEachObject(
      *from.bucket, from.prefix(), [&](const ObjectEntry& object) {
        const std::string name = object.key.substr(from.prefix().size());
        const bool is_of_commit = name == kCheckpointMetadataFile ||
                                  name == kCommitMarkerFile ||
                                  name == kSaveLease || name.empty();
        if (is_of_commit) return Status();
        found.copies.push_back(
            {object.key, object.version, to.prefix() + name});
        found.sizes[name] = {object.byte_count, true};
        return Status();
      }));
  return found;
}

}  // namespace

// Copies only to names that do not exist. A rival's files may have the same
// fixed names, and a save that was taken over must not overwrite them.
Status CopyObjects(const Place& directory,
                   const std::vector<ObjectCopy>& copies,
                   const CancelToken* cancel) {
  HF_ASSIGN_OR_RETURN(const BucketPlace at, directory.InBucket());
  Executor executor(
      static_cast<int>(std::clamp<size_t>(copies.size(), 1, kCopiesInFlight)));
  return executor.ParallelFor(
      copies.size(),
      [&](size_t i, int) -> Status {
        const ObjectCopy& copy = copies[i];
        HF_RETURN_IF_ERROR(
            CheckLeasesAbove(directory.path(), kLeaseGuardSeconds));
        return at.bucket
            ->Copy(copy.from, copy.to, Condition::Absent(), copy.version)
            .status();
      },
      cancel);
}

Status ReplaceByCopy(const Place& staged, const Place& target,
                     const std::string& result_id, uint64_t now_ns,
                     const CancelToken* cancel) {
  HF_ASSIGN_OR_RETURN(const BucketPlace from, staged.InBucket());
  HF_ASSIGN_OR_RETURN(const BucketPlace to, target.InBucket());
  const std::shared_ptr<Store> store = staged.OpenStore();
  HF_ASSIGN_OR_RETURN(const Bytes metadata,
                      store->Read(kCheckpointMetadataFile));
  HF_ASSIGN_OR_RETURN(const Bytes marker, store->Read(kCommitMarkerFile));
  HF_ASSIGN_OR_RETURN(const CheckpointCopies all, CopiesOf(from, to));
  HF_ASSIGN_OR_RETURN(const auto commit,
                      RemoteCommit::Begin(target, true, result_id));
  HF_RETURN_IF_ERROR(commit->WriteBegun(now_ns));
  HF_RETURN_IF_ERROR(commit->Explain(CopyObjects(target, all.copies, cancel)));
  HF_RETURN_IF_ERROR(
      commit->Finish(all.sizes, metadata.ToString(), marker.ToString()));
  return RemoveTree(staged);
}

}  // namespace holdfast
