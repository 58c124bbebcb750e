// Rescue: recovers a clean step from the remains of a checkpoint.
//
//   auto rescued = holdfast::Rescue("/ckpt/7", "/ckpt/rescued/7");
//   for (const holdfast::LostLeaf& lost : rescued->lost) { ... }
//
// `source` is a checkpoint of any format that Open reads, which need not be
// complete: it may be a database without its manifest, the directory of a save
// that never finished, a set of shards with some missing, or a truncated
// archive (doc/rescue.md has the list). It is never written to.
//
// `target` becomes a committed Orbax step with every intact tensor. A tensor is
// intact if all of its bytes exist and pass every check that its format has;
// otherwise it is lost. Partial tensors are not recovered. A change in data
// without a checksum cannot be detected: the result lists such leaves, and its
// is_whole() is then false.
//
// With `fill`, a lost leaf is taken from another step, if that step has a leaf
// with the same name, and with the same shape and dtype as far as these are
// known. The target's custom metadata list such leaves under "holdfast.rescue".
//
// Memory is limited as in Convert, except for the keys of a database that is
// rebuilt.
//
// Thread-safety: that of Save. Units: bytes, seconds.
// Errors: AlreadyExists (`Destination P already exists.`), NotFound (no such
// source), InvalidArgument (a directory of steps), DataLoss when nothing can be
// recovered, saying why; nothing is then written. Those of Convert.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "holdfast/export.h"
#include "holdfast/options.h"
#include "holdfast/status.h"

namespace holdfast HOLDFAST_EXPORT {

struct RescueOptions {
  RunOptions run;    // phases "verify", "write", "check"
  std::string fill;  // a step to take lost leaves from; empty: none
  // As in ConvertOptions.
  Compression compression = Compression::kZstd;
  bool sync = true;
  std::function<uint64_t()> now_ns;
  std::function<std::string()> random_hex;
};

// A leaf that is not intact, or a file or item whose leaves are not known.
struct LostLeaf {
  std::string leaf;  // empty if leaf names are not known
  std::string file;  // relative to the source; may be empty
  std::optional<uint64_t> offset;
  std::string reason;
  bool is_filled = false;  // the target has the value from the other step
};

struct RescueResult {
  std::string format;       // of the source
  uint64_t leaf_count = 0;  // in the target, including filled ones
  uint64_t filled_count = 0;
  uint64_t decoded_bytes = 0;  // of the leaves in the target
  std::vector<LostLeaf> lost;  // by name
  std::vector<std::string> notes;
  // False if the checkpoint may have had leaves that left no trace.
  bool names_are_known = true;
  // False if a list of checksums that the checkpoint was saved with is damaged
  // or missing.
  bool checksums_are_known = true;
  // Names of leaves in the target that checksums do not cover completely, so
  // that a changed byte may be undetected. Filled leaves are not included.
  std::vector<std::string> unchecked;
  double total_seconds = 0;

  // True if nothing is lost and checksums covered everything.
  bool is_whole() const {
    return lost.empty() && names_are_known && checksums_are_known &&
           unchecked.empty();
  }
};

Result<RescueResult> Rescue(const std::string& source,
                            const std::string& target,
                            const RescueOptions& options = {});

}  // namespace HOLDFAST_EXPORT
