// Merge: makes one checkpoint from several checkpoints of any formats.
//
//   holdfast::MergeSource a{"/ckpt/base"}, b{"/ckpt/adapter", "adapter"};
//   auto merged = holdfast::Merge({a, b}, "/new/merged");
//
// Without `average`, the result has the leaves of all sources, each under its
// source's prefix; a name that two sources have is an error, unless
// MergeOptions::prefer says which one wins. With `average`, all sources must
// have the same leaves, and a float or complex tensor of the result is their
// weighted mean, element by element: sum(w[i] * x[i]) / sum(w[i]), in float64
// and rounded once to the dtype of the first source. Everything else must be
// equal in all sources.
//
// Only the pieces being processed are held in memory, within
// RunOptions::memory_bytes.
// Thread-safety: that of Save; a merged Checkpoint is immutable.
// Units: bytes.
// Errors: those of Open and Convert; InvalidArgument for names that collide,
// leaves that are missing or differ in shape or dtype, and values that must be
// equal and are not, each with the leaf and both sources; InvalidArgument for
// `average` with `prefer` or with prefixes, and for `take_first` and `weights`
// without `average`.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "holdfast/checkpoint.h"
#include "holdfast/export.h"
#include "holdfast/options.h"
#include "holdfast/status.h"
#include "holdfast/tools/convert.h"

namespace holdfast HOLDFAST_EXPORT {

// Which source wins for a name that several sources have.
enum class MergePrefer : uint8_t { kRefuse, kFirst, kLast };

struct MergeOptions {
  // How values that must be equal for `average` are read and compared; progress
  // is not reported.
  RunOptions run;
  MergePrefer prefer = MergePrefer::kRefuse;
  bool average = false;
  // One per source; their sum must be above 0. Empty: equal weights.
  std::vector<double> weights;
  // With `average`: take leaves other than floats from the first source, even
  // if they differ.
  bool take_first = false;
};

// One of the checkpoints to merge.
struct MergePart {
  std::shared_ptr<const Checkpoint> checkpoint;
  // Keys to put before the keys of each leaf; "a.b" is two keys. May be empty.
  std::string prefix;
  std::string label;  // for messages; empty: its path
};

// Returns a checkpoint that reads from the sources. With `average`, reads and
// compares the leaves that must be equal now; everything else is read only when
// it is requested.
Result<std::unique_ptr<Checkpoint>> MergeCheckpoints(
    std::vector<MergePart> parts, const MergeOptions& options = {});

struct MergeSource {
  std::string path;
  std::string prefix;
  OpenOptions open = {};
};

// Opens the sources, and writes the merged checkpoint to `target`.
// `convert.open` is ignored, and `convert.names` are names in the result.
Result<ConvertResult> Merge(const std::vector<MergeSource>& sources,
                            const std::string& target,
                            const MergeOptions& options = {},
                            const ConvertOptions& convert = {});

}  // namespace holdfast
