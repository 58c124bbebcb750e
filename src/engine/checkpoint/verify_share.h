// Divides the checks of a checkpoint among several processes, and merges the
// processes' reports into one.
//
// Each process goes through the same units of work in the same order and takes
// some of them, so that the bytes are divided evenly. A digest of the units
// then proves that all processes saw the same units. If damage hid a unit from
// one process, or the checkpoint changed during the work, some unit might be
// checked by no process.
// Thread-safety: one thread per WorkShare; pure functions. Units: bytes.
// Errors: DataLoss for bytes that are not a report; FailedPrecondition naming
// the ranks that saw different units.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "holdfast/checkpoint.h"

namespace holdfast {

class WorkShare {
 public:
  // REQUIRES: 0 <= rank < rank_count.
  WorkShare(int64_t rank, int64_t rank_count);

  // Returns whether this process does the unit. A unit goes to the process with
  // the least work so far.
  bool Takes(std::string_view unit, uint64_t byte_count);
  uint64_t digest() const { return digest_; }

 private:
  int64_t rank_;
  std::vector<uint64_t> bytes_by_rank_;
  uint64_t digest_;
};

struct ShareReport {
  VerifyReport report;
  uint64_t units_digest = 0;
};

std::string EncodeShareReport(const ShareReport& share);
Result<ShareReport> DecodeShareReport(std::string_view bytes);

// Merges the reports of all ranks, which are in rank order. Damage that several
// ranks found counts once. `path` is for messages.
Result<VerifyReport> MergeShareReports(std::vector<ShareReport> shares,
                                       std::string_view path);

// Calls `check` with this process's share, and merges the reports of all ranks
// in the group (null: only this process).
Result<VerifyReport> VerifyInShares(
    const std::string& path, ProcessGroup* group,
    const std::function<Result<ShareReport>(WorkShare share)>& check);

// Adds a finding to `damages` or `not_supported` in the report. A failure that
// is neither is returned instead, and ends the verification.
Status AddFinding(Damage finding, VerifyReport& report);

// Sorts the report's findings by leaf, file and offset, since workers find them
// in any order.
void SortFindings(VerifyReport& report);

}  // namespace holdfast
