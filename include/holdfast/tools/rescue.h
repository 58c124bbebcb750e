// Rescue: a clean step out of whatever is left of a checkpoint.
//
//   auto rescued = holdfast::Rescue("/ckpt/7", "/ckpt/rescued/7");
//   for (const holdfast::LostLeaf& lost : rescued->lost) { ... }
//
// `source` is a checkpoint of any format that Open reads, whole or not: a
// database without its manifest, a directory of a save that never ended, shards
// of which some are gone, archives that were cut (doc/rescue.md has the list).
// `target` becomes a committed Orbax step, which holds every tensor that is
// whole: each of its bytes is there, and passes every check that its format
// has. A tensor is whole or lost; none is taken in parts. A change of what has
// no checksum cannot be noticed: the result says which leaves these are, and is
// not whole. The source is never written to.
//
// With `fill` a lost leaf is taken from that step instead, where it has one of
// that name, and of that shape and dtype, as far as these are known. The
// target's custom metadata say which under "holdfast.rescue".
//
// Memory is bounded as by Convert, beside the keys of a database that is put
// together again. Thread-safety: as Save. Units: bytes, seconds.
// Errors: AlreadyExists (`Destination P already exists.`), NotFound (no such
// source), InvalidArgument (a directory of steps), DataLoss when nothing can be
// recovered, saying why; then nothing is written. Those of Convert.
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
  std::string fill;  // a step; empty: none
  // As ConvertOptions has them.
  Compression compression = Compression::kZstd;
  bool sync = true;
  std::function<uint64_t()> now_ns;
  std::function<std::string()> random_hex;
};

// A leaf that is not whole, or a file or an item of which no more is known.
struct LostLeaf {
  std::string leaf;  // empty: names of leaves are not known
  std::string file;  // relative to the source; may be empty
  std::optional<uint64_t> offset;
  std::string reason;
  bool is_filled = false;  // its value in the target is the other step's
};

struct RescueResult {
  std::string format;       // of the source
  uint64_t leaf_count = 0;  // in the target, filled ones included
  uint64_t filled_count = 0;
  uint64_t decoded_bytes = 0;  // of the leaves in the target
  std::vector<LostLeaf> lost;  // by name
  std::vector<std::string> notes;
  // False: there may have been leaves of which nothing is left.
  bool names_are_known = true;
  // False: a list of checksums that the checkpoint was saved with is damaged or
  // gone.
  bool checksums_are_known = true;
  // Leaves in the target of which no checksum covers every byte, so that a
  // changed one cannot have been noticed; by name, filled ones excepted.
  std::vector<std::string> unchecked;
  double total_seconds = 0;

  // Nothing is lost, as far as checks go, and they go all the way.
  bool is_whole() const {
    return lost.empty() && names_are_known && checksums_are_known &&
           unchecked.empty();
  }
};

Result<RescueResult> Rescue(const std::string& source,
                            const std::string& target,
                            const RescueOptions& options = {});

}  // namespace HOLDFAST_EXPORT
