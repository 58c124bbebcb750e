// StepFiles: the files of all members of a step as one checkpoint, in the form
// of a read-only bucket. The members may be on any hosts.
//
// Files of this host are read from its disk; other files are requested from
// their holders. The file that joins the members' parts is made in memory
// (FinishItem).
// Thread-safety: after Finish, any thread. Ownership: borrows the peers, which
// must outlive every reader. Units: bytes.
// Errors: those of TierPeers and of FinishItem; writes are Unimplemented.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "ground/base/executor.h"
#include "stores/cloud/read_only_bucket.h"
#include "stores/place/place.h"
#include "stores/storage/store.h"
#include "tiers/manager/tier_peers.h"
#include "tiers/manager/tier_record.h"

namespace holdfast {

class StepFiles final : public ReadOnlyBucket {
 public:
  // `files` has each member's files, and `holders` the rank that has them, both
  // by the member's rank in the save.
  StepFiles(const TierStep& step, std::vector<std::vector<TierFile>> files,
            std::vector<int64_t> holders, TierPeers& peers);

  // Joins the parts of `item`, as FinishItem does. `save` must have the options
  // with which they were saved.
  static Status Finish(const std::shared_ptr<StepFiles>& files,
                       const std::string& item, const SaveOptions& save);
  // Returns the directory of the step, or of an item.
  static Place PlaceOf(const std::shared_ptr<StepFiles>& files,
                       const std::string& item);

  Result<Bytes> Read(std::string_view path, ByteRange range = {});

  const BucketTraits& traits() const override { return traits_; }
  std::string UrlOf(std::string_view key) const override;
  Result<ObjectEntry> Head(std::string_view key) override;
  std::vector<Result<GetResult>> Get(std::span<const GetRequest> requests,
                                     const CancelToken* cancel) override;
  Result<ListPage> List(const ListRequest& request) override;
  int64_t ServerTimeNs() const override { return 0; }

 private:
  struct File {
    int64_t rank = -1;    // the member's rank in the save; -1: in memory
    uint64_t offset = 0;  // in the sequence of the member's files
    uint64_t byte_count = 0;
    Bytes bytes;
  };
  const File* FileOf(std::string_view key) const;
  Result<GetResult> GetOne(const GetRequest& request);
  Status Fill(const File& file, uint64_t offset, std::span<char> target);

  const TierStep step_;
  const std::vector<int64_t> holders_;
  TierPeers& peers_;
  BucketTraits traits_;
  Executor readers_;
  std::map<std::string, File, std::less<>> files_;
};

}  // namespace holdfast
