// Merge: one checkpoint out of several, of any formats.
//
//   holdfast::MergeSource a{"/ckpt/base"}, b{"/ckpt/adapter", "adapter"};
//   auto merged = holdfast::Merge({a, b}, "/new/merged");
//
// Without `average` the result has the leaves of all sources, each under its
// prefix; one name in two of them is an error, or MergeOptions::prefer says
// which counts. With `average` all sources have the same leaves, and a float or
// complex tensor of the result is their weighted mean, element by element:
// sum(w[i] * x[i]) / sum(w[i]), in float64 and rounded once to the dtype of the
// first source. Everything else has to be equal in all of them.
//
// Nothing is held but the pieces under way, within RunOptions'
// in_flight_bytes_max.
// Thread-safety: as Save; a merged Checkpoint is immutable.
// Units: bytes.
// Errors: those of Open and Convert; InvalidArgument for names that collide,
// leaves that are missing or have another shape or dtype, values that are to be
// equal and are not, each with the leaf and both sources; InvalidArgument for
// `average` with `prefer` or with prefixes, and for `take_first` and `weights`
// without it.
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

// The source of a leaf that several sources have under its name.
enum class MergePrefer : uint8_t { kRefuse, kFirst, kLast };

struct MergeOptions {
  // How sources are compared where `average` needs that; reports no progress.
  RunOptions run;
  MergePrefer prefer = MergePrefer::kRefuse;
  bool average = false;
  // One a source, of a sum above 0; empty: all alike.
  std::vector<double> weights;
  // With `average`: leaves other than floats are taken from the first source,
  // equal or not.
  bool take_first = false;
};

// One of the checkpoints that are merged.
struct MergePart {
  std::shared_ptr<const Checkpoint> checkpoint;
  // Keys put before each leaf's own; "a.b" is two keys. Empty: none.
  std::string prefix;
  std::string label;  // in messages; empty: its path
};

// A checkpoint that reads from the parts. With `average` the leaves that have
// to be equal are read and compared now; nothing else is read before it is
// asked for.
Result<std::unique_ptr<Checkpoint>> MergeCheckpoints(
    std::vector<MergePart> parts, const MergeOptions& options = {});

struct MergeSource {
  std::string path;
  std::string prefix;
  OpenOptions open = {};
};

// Opens the sources, and writes them merged as `target`. `convert.open`
// does not count; `names` are those of the result.
Result<ConvertResult> Merge(const std::vector<MergeSource>& sources,
                            const std::string& target,
                            const MergeOptions& options = {},
                            const ConvertOptions& convert = {});

}  // namespace HOLDFAST_EXPORT
