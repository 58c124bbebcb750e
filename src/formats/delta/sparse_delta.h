// Codes the changes of a tensor in which few words have changed: the distances
// between changed words, and how much each word changed.
//
// A weight with a small exponent changes more often than one with a large
// exponent, because its steps between representable numbers are smaller. This
// holds throughout a tensor, so the words are divided into up to eight classes
// by the exponents of their old values, which a decoder has. Distances are
// counted among the words of a class. Distances and differences are symbols
// (formats/delta/buckets.h) with frequencies for each class, coded by
// formats/delta/rans.h. The mean cost is within a few percent of the entropy
// given the exponent (bench/results/deltas.md).
//
// The layout; numbers are varints unless stated otherwise:
//   change count
//   if tiny (at most kTinyChangesMax changes): for each change, the number of
//     words before it and the difference (zigzag)
//   else: class count (a byte), class count - 1 thresholds, change counts,
//     bytes of the bit stream; the bit stream: frequencies of distances and of
//     differences for each class that has changes, then the extra bits of the
//     symbols, for each class those of the distances, then of the differences;
//     the rest is the rANS stream of the symbols in that order.
// The word count of each class precedes its change count, so all places are
// known before the words are read. Differences (formats/delta/words.h) are
// coded minus 1.
//
// Thread-safety: an object belongs to one thread. Ownership: arguments are
// borrowed. Units: words, unless a name says bytes.
// Errors: Apply returns false for bytes that an encoder would not have written,
// and the words are then unspecified; it never reads or writes beyond them.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "formats/delta/words.h"

namespace holdfast {

inline constexpr uint64_t kTinyChangesMax = 32;
// Chunks have fewer words than this.
inline constexpr uint64_t kDeltaWordsMax = uint64_t{1} << 31;

class SparseDelta {
 public:
  SparseDelta();
  ~SparseDelta();

  // Returns the number of words that differ. REQUIRES: equal sizes, in complete
  // words.
  uint64_t CountChanges(const WordKind& kind, std::string_view base,
                        std::string_view next);
  // Returns the coded difference. REQUIRES: the arguments of the last
  // CountChanges.
  std::string Encode(const WordKind& kind, std::string_view base,
                     std::string_view next);
  // Adds the coded differences to `words`.
  bool Apply(const WordKind& kind, std::string_view coded,
             std::span<char> words);

 private:
  struct Scratch;
  std::unique_ptr<Scratch> scratch_;
};

}  // namespace holdfast
