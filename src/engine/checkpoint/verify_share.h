// The share of a checkpoint that each of several processes checks, and one
// report made of all their reports.
//
// Each process goes through the same units of work in the same order and takes
// some of them, so that their bytes are shared evenly. That all have seen the
// same units is proved afterwards by a digest of them: damage that hides a unit
// from one process, or a checkpoint that changes meanwhile, would leave work
// that nobody does.
// Thread-safety: one thread a WorkShare; pure functions.
// Units: bytes. Errors: DataLoss for bytes that are not a report;
// FailedPrecondition naming the ranks that saw other units.
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

  // Whether this process does the unit: the one with the least work so far
  // does.
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

// Merges the reports of all ranks, in order of rank. Damage that several found
// counts once. `path` is for messages.
Result<VerifyReport> MergeShareReports(std::vector<ShareReport> shares,
                                       std::string_view path);

// Calls `check` with this process's share, and puts the reports of all ranks of
// the group (null: only this process) together.
Result<VerifyReport> VerifyInShares(
    const std::string& path, ProcessGroup* group,
    const std::function<Result<ShareReport>(WorkShare share)>& check);

// Adds what was found to `damages` or `not_supported` of the report. A failure
// that is neither comes back instead, and ends the verification.
Status AddFinding(Damage finding, VerifyReport& report);

// Sorts both by leaf, file and offset: workers find them in any order.
void SortFindings(VerifyReport& report);

}  // namespace holdfast
