// The words of a tensor of which few have changed, coded as what has: how far
// apart the changed ones are, and by how much each changed.
//
// A weight of a small exponent changes more often than one of a large one, by
// the same rule in all of a tensor (its steps of representable numbers are
// smaller), so the words are divided into up to eight classes by the exponents
// of their old values, which a decoder knows; distances are counted among the
// words of a class. Distances and differences are symbols
// (formats/delta/buckets.h) of frequencies of each class's own, coded by
// formats/delta/rans.h. The mean cost lies within a few per cent of the entropy
// given the exponent (bench/results/deltas.md).
//
// The layout, numbers as varints unless they say otherwise:
//   change count
//   tiny (kTinyChangesMax changes at most): for each the words between, and the
//     difference (zigzag)
//   else: class count (a byte), class count - 1 thresholds, class change
//   counts,
//     bytes of the bit stream; the bit stream: frequencies of distances and of
//     differences for each class that has changes, then the bits behind the
//     symbols, of each class the distances, then the differences; the rest is
//     the rANS stream of the symbols in that order.
// Each class has its word count before its change count, so that all places are
// known before the words are looked at. Differences (formats/delta/words.h) are
// coded less 1.
//
// Thread-safety: an object belongs to one thread. Ownership: arguments are
// borrowed. Units: words, but where a name says bytes.
// Errors: Apply returns false for what an encoder would not have written, and
// the words are then unspecified; it never reads or writes beyond them.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "formats/delta/words.h"

namespace holdfast {

inline constexpr uint64_t kTinyChangesMax = 32;
// Chunks have less words than this.
inline constexpr uint64_t kDeltaWordsMax = uint64_t{1} << 31;

class SparseDelta {
 public:
  SparseDelta();
  ~SparseDelta();

  // How many words differ. REQUIRES: equal sizes, of whole words.
  uint64_t CountChanges(const WordKind& kind, std::string_view base,
                        std::string_view next);
  // The coded difference. REQUIRES: as of the last CountChanges.
  std::string Encode(const WordKind& kind, std::string_view base,
                     std::string_view next);
  // words += what is coded.
  bool Apply(const WordKind& kind, std::string_view coded,
             std::span<char> words);

 private:
  struct Scratch;
  std::unique_ptr<Scratch> scratch_;
};

}  // namespace holdfast
