// Judges which leaves of an opened checkpoint are intact. Reads every byte of
// each leaf, and checks all that its format can check.
//
// Thread-safety: one call per checkpoint. Units: bytes.
// Errors: failures other than damage (IsDamage). These say nothing about the
// bytes.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "holdfast/checkpoint.h"
#include "stores/place/place.h"

namespace holdfast {

// The verdict about a leaf. `status` says what is wrong, and is ok for an
// intact leaf.
struct Verdict {
  Status status;
  std::string file;  // below the checkpoint, or its full path; may be empty
  std::optional<uint64_t> offset;
  // Every byte of the leaf was compared with a checksum.
  bool is_checked = true;
};

// Returns one verdict per leaf. `notes` receives damage that belongs to no
// leaf. REQUIRES: `checkpoint` was opened from `place` by Orbax's own rules
// with these options.
Result<std::vector<Verdict>> JudgeOrbax(const Checkpoint& checkpoint,
                                        const Place& place,
                                        const OpenOptions& options,
                                        const RunOptions& run,
                                        std::vector<std::string>& notes);

// Judges some leaves of any checkpoint by reading them; the others count as
// intact.
Result<std::vector<Verdict>> JudgeByReading(const Checkpoint& checkpoint,
                                            const std::vector<size_t>& leaves,
                                            const RunOptions& run);

}  // namespace holdfast
