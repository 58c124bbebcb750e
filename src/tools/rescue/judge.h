// Which leaves of an opened checkpoint are whole: every byte of them is read,
// and everything that its format can check is checked.
//
// Thread-safety: one call a checkpoint. Units: bytes.
// Errors: failures other than damage (IsDamage), which say nothing about the
// bytes.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "holdfast/checkpoint.h"
#include "stores/place/place.h"

namespace holdfast {

// Says what is wrong with a leaf; ok: it is whole.
struct Verdict {
  Status status;
  std::string file;  // below the checkpoint, or its whole path; may be empty
  std::optional<uint64_t> offset;
  // Every byte of it was compared with a checksum.
  bool is_checked = true;
};

// One a leaf. `notes` gets damage that belongs to no leaf.
// REQUIRES: `checkpoint` is what `place` was opened as, by Orbax's own rules
// and with these options.
Result<std::vector<Verdict>> JudgeOrbax(const Checkpoint& checkpoint,
                                        const Place& place,
                                        const OpenOptions& options,
                                        const RunOptions& run,
                                        std::vector<std::string>& notes);

// Judges some leaves of any checkpoint, by reading them; the others are whole.
Result<std::vector<Verdict>> JudgeByReading(const Checkpoint& checkpoint,
                                            const std::vector<size_t>& leaves,
                                            const RunOptions& run);

}  // namespace holdfast
