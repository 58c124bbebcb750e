#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "arguments.h"
#include "bindings.h"
#include "blocking.h"
#include "errors.h"
#include "holdfast/tools/diff.h"
#include "holdfast/tools/merge.h"
#include "holdfast/tools/report.h"
#include "holdfast/tools/rescue.h"
#include "holdfast/tools/stats.h"
#include "tree_output.h"

namespace nb = nanobind;

namespace holdfast::python {
namespace {

using NamesToRename = std::vector<std::tuple<std::string, std::string, bool>>;

std::unique_ptr<Checkpoint> Opened(nb::handle path, std::optional<int64_t> step,
                                   bool fingerprints = false) {
  OpenOptions open;
  open.step = step;
  open.fingerprints = fingerprints;
  open.stored_sizes = false;
  const std::string source = PathOf(path);
  std::unique_ptr<Checkpoint> opened;
  RunBlocking({}, nb::none(), [&](const RunOptions&) {
    auto result = Open(source, open);
    if (result.ok()) opened = *std::move(result);
    return result.status();
  });
  return opened;
}

// Converts the scalar to a number; None if it is missing.
nb::object NumberOf(const std::optional<Scalar>& scalar) {
  if (!scalar) return nb::none();
  if (scalar->dtype == DType::kInt64) return nb::int_(scalar->As<int64_t>());
  if (scalar->dtype == DType::kUint64) return nb::int_(scalar->As<uint64_t>());
  return nb::float_(scalar->As<double>());
}

// Converts an element to an array without dimensions.
nb::object ElementOf(const Scalar& scalar) {
  return ToPython(
      Tree(Array::FromBytes(scalar.dtype, {}, scalar.bytes.data())));
}

nb::object SideOf(const Checkpoint& checkpoint,
                  const std::optional<size_t>& leaf) {
  if (!leaf) return nb::none();
  const LeafInfo& info = checkpoint.leaves()[*leaf];
  nb::object dtype = nb::none();
  if (info.dtype) dtype = nb::str(std::string(DTypeName(*info.dtype)).c_str());
  return nb::make_tuple(ToPythonText(info.name),
                        std::string(ValueKindName(info.kind)), dtype,
                        ToTuple(info.shape), info.decoded_bytes);
}

nb::dict RowOfDiff(const Checkpoint& a, const Checkpoint& b,
                   const LeafDiff& leaf) {
  nb::dict row;
  row["name"] = ToPythonText(leaf.name);
  row["what"] = std::string(DiffVerdictName(leaf.verdict));
  row["a"] = SideOf(a, leaf.a);
  row["b"] = SideOf(b, leaf.b);
  row["renamed"] = nb::none();
  if (leaf.renamed) {
    const Checkpoint& other = leaf.a ? b : a;
    row["renamed"] = ToPythonText(other.leaves()[*leaf.renamed].name);
  }
  row["element_count"] = leaf.element_count;
  row["different_count"] = leaf.different_count;
  row["beyond_count"] = leaf.beyond_count;
  row["nan_mismatch_count"] = leaf.nan_mismatch_count;
  row["bits_only_count"] = leaf.bits_only_count;
  row["max_abs_error"] = leaf.max_abs_error;
  row["max_rel_error"] = leaf.max_rel_error;
  row["max_abs_error_exact"] = leaf.max_abs_error_exact;
  row["first_index"] = nb::none();
  row["first_a"] = nb::none();
  row["first_b"] = nb::none();
  row["first_byte"] = leaf.first_byte;
  if (leaf.first_index) {
    row["first_index"] = ToTuple(*leaf.first_index);
    row["first_a"] = ElementOf(leaf.first_a);
    row["first_b"] = ElementOf(leaf.first_b);
  }
  row["error"] = nb::none();
  if (!leaf.problem.ok()) row["error"] = ToPythonText(leaf.problem.message());
  return row;
}

nb::tuple BindingDiff(
    nb::handle path_a, nb::handle path_b, double atol, double rtol,
    bool equal_nan, bool equal_bits, bool ignore_dtype, bool only_structure,
    bool by_fingerprint, bool find_renamed, const NamesToRename& rename,
    std::vector<std::string> select, std::vector<std::string> drop,
    std::optional<int64_t> step_a, std::optional<int64_t> step_b,
    int thread_count, uint64_t memory_bytes, nb::handle progress) {
  const auto a = Opened(path_a, step_a, by_fingerprint);
  const auto b = Opened(path_b, step_b, by_fingerprint);
  DiffOptions options;
  options.atol = atol;
  options.rtol = rtol;
  options.equal_nan = equal_nan;
  options.equal_bits = equal_bits;
  options.ignore_dtype = ignore_dtype;
  options.only_structure = only_structure;
  options.by_fingerprint = by_fingerprint;
  options.find_renamed = find_renamed;
  options.map.select = std::move(select);
  options.map.drop = std::move(drop);
  for (const auto& [pattern, replacement, is_literal] : rename) {
    options.map.renames.push_back({pattern, replacement, is_literal});
  }
  const auto result = RunForResult<DiffResult>(
      RunOf(thread_count, memory_bytes), progress, [&](const RunOptions& run) {
        options.run = run;
        return Diff(*a, *b, options);
      });
  nb::list rows, worst;
  for (const LeafDiff& leaf : result.leaves) {
    rows.append(RowOfDiff(*a, *b, leaf));
  }
  for (const size_t i : WorstFirst(result)) worst.append(i);
  return nb::make_tuple(rows, worst, result.stats);
}

nb::dict RowOfStats(const LeafStats& leaf) {
  nb::dict row;
  row["name"] = ToPythonText(leaf.name);
  row["dtype"] = std::string(DTypeName(leaf.dtype));
  row["shape"] = ToTuple(leaf.shape);
  row["element_count"] = leaf.element_count;
  row["bytes"] = leaf.bytes;
  row["finite_count"] = leaf.finite_count;
  row["zero_count"] = leaf.zero_count;
  row["nan_count"] = leaf.nan_count;
  row["infinity_count"] = leaf.infinity_count();
  row["min"] = NumberOf(leaf.min);
  row["max"] = NumberOf(leaf.max);
  row["absmax"] = NumberOf(leaf.absmax);
  row["mean"] = leaf.mean;
  if (DTypeKindOf(leaf.dtype) == DTypeKind::kComplex) {
    row["mean"] =
        nb::steal(PyComplex_FromDoubles(leaf.mean, leaf.mean_imaginary));
  }
  row["std"] = leaf.std;
  row["l2_norm"] = leaf.l2_norm;
  row["error"] = nb::none();
  if (!leaf.problem.ok()) row["error"] = ToPythonText(leaf.problem.message());
  return row;
}

nb::tuple BindingStats(nb::handle path, std::optional<int64_t> step,
                       int thread_count, uint64_t memory_bytes,
                       nb::handle progress) {
  const auto checkpoint = Opened(path, step);
  const auto result = RunForResult<StatsResult>(
      RunOf(thread_count, memory_bytes), progress, [&](const RunOptions& run) {
        StatsOptions options;
        options.run = run;
        return ComputeStats(*checkpoint, options);
      });
  nb::list rows;
  for (const LeafStats& leaf : result.leaves) rows.append(RowOfStats(leaf));
  return nb::make_tuple(rows, result.l2_norm, result.absmax, result.stats);
}

nb::tuple BindingReport(nb::handle path, std::optional<int64_t> step,
                        bool statistics, bool verify, nb::handle against,
                        nb::handle cache, bool moved, int thread_count,
                        uint64_t memory_bytes, nb::handle progress) {
  ReportOptions options;
  options.open.step = step;
  options.statistics = statistics;
  options.verify = verify;
  if (!against.is_none()) options.against = PathOf(against);
  if (!cache.is_none()) options.cache = PathOf(cache);
  options.moved = moved;
  const std::string from = PathOf(path);
  const auto result = RunForResult<ReportResult>(
      RunOf(thread_count, memory_bytes), progress, [&](const RunOptions& run) {
        options.run = run;
        return MakeReport(from, options);
      });
  return nb::make_tuple(ToPythonText(result.html), result.leaf_count,
                        result.unreadable_count, result.damage_count,
                        result.different_count,
                        ToPythonText(result.cache_warning));
}

nb::dict BindingMerge(
    const std::vector<std::pair<nb::object, std::string>>& sources,
    nb::handle target, const std::string& prefer, bool average,
    std::vector<double> weights, bool take_first,
    const std::optional<std::string>& format, std::optional<int> zarr_format,
    std::optional<bool> use_ocdbt,
    const std::optional<std::string>& compression, uint64_t chunk_bytes,
    bool overwrite, bool check, bool sync, int thread_count,
    uint64_t memory_bytes, nb::handle progress) {
  std::vector<MergeSource> from;
  for (const auto& [path, prefix] : sources) {
    from.push_back({PathOf(path), prefix});
    from.back().open.stored_sizes = false;
  }
  MergeOptions merge;
  if (prefer == "first") merge.prefer = MergePrefer::kFirst;
  if (prefer == "last") merge.prefer = MergePrefer::kLast;
  merge.average = average;
  merge.weights = std::move(weights);
  merge.take_first = take_first;
  ConvertOptions convert;
  if (format) {
    convert.format = FormatFromName(*format);
    if (!convert.format) ThrowValueError("format: got '" + *format + "'");
  }
  convert.zarr_format = zarr_format;
  convert.use_ocdbt = use_ocdbt;
  convert.compression = CompressionOf(compression);
  convert.chunk_bytes = chunk_bytes;
  convert.overwrite = overwrite;
  convert.check = check;
  convert.sync = sync;
  const std::string to = PathOf(target);
  const auto result = RunForResult<ConvertResult>(
      RunOf(thread_count, memory_bytes), progress, [&](const RunOptions& run) {
        merge.run = run;
        convert.run = run;
        return Merge(from, to, merge, convert);
      });
  nb::dict values;
  values["format"] = std::string(FormatName(result.format));
  values["leaf_count"] = result.leaf_count;
  values["decoded_bytes"] = result.decoded_bytes;
  values["written_bytes"] = result.written_bytes;
  values["checked_bytes"] = result.checked_bytes;
  values["total_seconds"] = result.total_seconds;
  return values;
}

nb::dict BindingRescue(nb::handle source, nb::handle target, nb::handle fill,
                       const std::optional<std::string>& compression, bool sync,
                       int thread_count, uint64_t memory_bytes,
                       nb::handle progress) {
  RescueOptions options;
  options.fill = PathOf(fill);
  options.compression = CompressionOf(compression);
  options.sync = sync;
  const std::string from = PathOf(source);
  const std::string to = PathOf(target);
  const auto result = RunForResult<RescueResult>(
      RunOf(thread_count, memory_bytes), progress, [&](const RunOptions& run) {
        options.run = run;
        return Rescue(from, to, options);
      });
  nb::list lost;
  for (const LostLeaf& leaf : result.lost) {
    lost.append(nb::make_tuple(ToPythonText(leaf.leaf), ToPythonText(leaf.file),
                               leaf.offset, ToPythonText(leaf.reason),
                               leaf.is_filled));
  }
  nb::list notes;
  for (const std::string& note : result.notes) notes.append(ToPythonText(note));
  nb::dict values;
  values["format"] = result.format;
  values["leaf_count"] = result.leaf_count;
  values["filled_count"] = result.filled_count;
  values["decoded_bytes"] = result.decoded_bytes;
  values["lost"] = lost;
  values["notes"] = notes;
  values["names_are_known"] = result.names_are_known;
  values["checksums_are_known"] = result.checksums_are_known;
  values["unchecked"] = ToPythonTexts(result.unchecked);
  values["total_seconds"] = result.total_seconds;
  return values;
}

}  // namespace

void BindCompare(nb::module_& module) {
  module.def("diff", &BindingDiff, nb::arg("a"), nb::arg("b"), nb::kw_only(),
             nb::arg("atol") = 0.0, nb::arg("rtol") = 0.0,
             nb::arg("equal_nan") = true, nb::arg("equal_bits") = false,
             nb::arg("ignore_dtype") = false, nb::arg("only_structure") = false,
             nb::arg("by_fingerprint") = false, nb::arg("find_renamed") = true,
             nb::arg("rename") = nb::list(), nb::arg("select") = nb::list(),
             nb::arg("drop") = nb::list(), nb::arg("step_a") = nb::none(),
             nb::arg("step_b") = nb::none(), nb::arg("threads") = 0,
             nb::arg("memory_bytes") = uint64_t{256} << 20,
             nb::arg("progress") = nb::none());
  module.def("stats", &BindingStats, nb::arg("path"), nb::kw_only(),
             nb::arg("step") = nb::none(), nb::arg("threads") = 0,
             nb::arg("memory_bytes") = uint64_t{256} << 20,
             nb::arg("progress") = nb::none());
  module.def("report", &BindingReport, nb::arg("path"), nb::kw_only(),
             nb::arg("step") = nb::none(), nb::arg("statistics") = true,
             nb::arg("verify") = false, nb::arg("against") = nb::none(),
             nb::arg("cache") = nb::none(), nb::arg("moved") = false,
             nb::arg("threads") = 0,
             nb::arg("memory_bytes") = uint64_t{256} << 20,
             nb::arg("progress") = nb::none(),
             "holdfast::MakeReport: the page's bytes, and what it counted.");
  module.def(
      "merge", &BindingMerge, nb::arg("sources"), nb::arg("target"),
      nb::kw_only(), nb::arg("prefer") = "", nb::arg("average") = false,
      nb::arg("weights") = nb::list(), nb::arg("take_first") = false,
      nb::arg("format") = nb::none(), nb::arg("zarr_format") = nb::none(),
      nb::arg("use_ocdbt") = nb::none(), nb::arg("compression").none() = "zstd",
      nb::arg("chunk_bytes") = uint64_t{8} << 20, nb::arg("overwrite") = false,
      nb::arg("check") = true, nb::arg("sync") = true, nb::arg("threads") = 0,
      nb::arg("memory_bytes") = uint64_t{256} << 20,
      nb::arg("progress") = nb::none());
  module.def("rescue", &BindingRescue, nb::arg("source"), nb::arg("target"),
             nb::kw_only(), nb::arg("fill") = "",
             nb::arg("compression").none() = "zstd", nb::arg("sync") = true,
             nb::arg("threads") = 0,
             nb::arg("memory_bytes") = uint64_t{256} << 20,
             nb::arg("progress") = nb::none(),
             "holdfast::Rescue: what is lost as (leaf, file, offset, reason, "
             "filled).");
}

}  // namespace holdfast::python
