// stats: summarizes the elements of each tensor.

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "cli/element_text.h"
#include "cli/failures.h"
#include "cli/job_progress.h"
#include "cli/json_out.h"
#include "cli/leaf_text.h"
#include "cli/select.h"
#include "cli/text_table.h"
#include "cli/units.h"
#include "cli/verbs.h"
#include "holdfast/checkpoint.h"
#include "holdfast/tools/stats.h"

namespace holdfast::cli {
namespace {

struct StatsArgs : Args {
  SortKey sort = SortKey::kCheckpoint;
  bool only_non_finite = false;

  template <typename Fn>
  void Fields(const Fn& fn) {
    Args::Fields(fn);
    fn("sort", sort);
    fn("only_non_finite", only_non_finite);
  }
};

Result<StatsResult> StatsWithProgress(const Checkpoint& checkpoint,
                                      const std::vector<size_t>& selected,
                                      const StatsArgs& args, Env& env) {
  StatsOptions options;
  options.run = RunOptionsOf(args, env);
  const LeafInfo* const first = checkpoint.leaves().data();
  std::vector<bool> is_selected(checkpoint.leaves().size());
  for (const size_t i : selected) is_selected[i] = true;
  options.select = [&](const LeafInfo& leaf) {
    return is_selected[static_cast<size_t>(&leaf - first)];
  };
  const JobProgress progress(args, env, {.label = "stats"}, options.run);
  return ComputeStats(checkpoint, options);
}

double AbsMaxOfLeaf(const LeafStats& leaf) {
  if (!leaf.absmax) return -1;
  return leaf.absmax->dtype == DType::kUint64
             ? static_cast<double>(leaf.absmax->As<uint64_t>())
             : leaf.absmax->As<double>();
}

// Returns the value that --sort compares. The largest comes first, NaN before
// all others.
double SortValue(const LeafStats& leaf, SortKey key) {
  double value = 0;
  if (key == SortKey::kSize) value = static_cast<double>(leaf.bytes);
  if (key == SortKey::kMean) value = leaf.mean;
  if (key == SortKey::kStd) value = leaf.std;
  if (key == SortKey::kL2) value = leaf.l2_norm;
  if (key == SortKey::kAbsMax) value = AbsMaxOfLeaf(leaf);
  if (key == SortKey::kZeros) value = static_cast<double>(leaf.zero_count);
  return std::isnan(value) ? HUGE_VAL : value;
}

std::vector<const LeafStats*> Listed(const StatsResult& result,
                                     const StatsArgs& args) {
  std::vector<const LeafStats*> listed;
  for (const LeafStats& leaf : result.leaves) {
    const bool is_wanted =
        !args.only_non_finite || !leaf.problem.ok() || leaf.has_non_finite();
    if (is_wanted) listed.push_back(&leaf);
  }
  if (args.sort == SortKey::kCheckpoint) return listed;
  std::stable_sort(listed.begin(), listed.end(),
                   [&](const LeafStats* a, const LeafStats* b) {
                     if (args.sort == SortKey::kName) return a->name < b->name;
                     return SortValue(*a, args.sort) > SortValue(*b, args.sort);
                   });
  return listed;
}

std::string NumberText(double number) {
  if (std::isnan(number)) return "-";
  char text[32];
  std::snprintf(text, sizeof text, "%.6g", number);
  return text;
}

std::string NumberText(const std::optional<Scalar>& number) {
  if (!number) return "-";
  if (number->dtype == DType::kFloat64) return NumberText(number->As<double>());
  return ElementText(number->dtype, number->bytes.data());
}

std::string TypeOf(const LeafStats& leaf) {
  const std::string name(DTypeName(leaf.dtype));
  return leaf.shape.empty() ? name : name + ShapeText(leaf.shape);
}

std::string MeanText(const LeafStats& leaf) {
  if (DTypeKindOf(leaf.dtype) != DTypeKind::kComplex) {
    return NumberText(leaf.mean);
  }
  const std::string imaginary = NumberText(leaf.mean_imaginary);
  return NumberText(leaf.mean) + (imaginary.starts_with('-') ? "" : "+") +
         imaginary + "j";
}

void AddStats(const LeafStats& leaf, TextTable* table) {
  if (!leaf.problem.ok()) {
    table->AddRow({PrintableText(leaf.name), TypeOf(leaf), "-", "-", "-", "-",
                   "-", "-", "-", "-"});
    return;
  }
  const bool has_min = leaf.min.has_value();
  table->AddRow({PrintableText(leaf.name), TypeOf(leaf),
                 has_min ? NumberText(leaf.min) : "-",
                 has_min ? NumberText(leaf.max) : NumberText(leaf.absmax),
                 MeanText(leaf), NumberText(leaf.std), NumberText(leaf.l2_norm),
                 std::to_string(leaf.zero_count),
                 std::to_string(leaf.nan_count),
                 std::to_string(leaf.infinity_count())});
}

// Savings below this are not worth a conversion.
constexpr uint64_t kAdvisedBytesMin = 1 << 20;

// Prints what another compression would save, unless that is little.
void PrintAdvice(const StatsResult& result, std::ostream& out) {
  const uint64_t stored_bytes = result.stats.stored_bytes;
  if (result.planes_bytes + kAdvisedBytesMin > stored_bytes) return;
  char fraction[16];
  std::snprintf(fraction, sizeof fraction, "%.2f",
                static_cast<double>(result.planes_bytes) /
                    static_cast<double>(result.bytes));
  out << "stored in " << HumanBytes(stored_bytes) << "; about "
      << HumanBytes(result.planes_bytes) << " as planes (" << fraction
      << " of the elements), " << HumanBytes(stored_bytes - result.planes_bytes)
      << " less: holdfast convert --compression planes\n";
}

void PrintStatsText(const StatsResult& result,
                    const std::vector<const LeafStats*>& listed,
                    const StatsArgs& args, Env& env) {
  BeginListing(args, env);
  TextTable table({{"NAME", Align::kLeft, Fit::kShortenName},
                   {"TYPE"},
                   {"MIN", Align::kRight},
                   {"MAX", Align::kRight},
                   {"MEAN", Align::kRight, Fit::kDrop},
                   {"STD", Align::kRight, Fit::kDrop},
                   {"L2", Align::kRight, Fit::kDrop},
                   {"ZEROS", Align::kRight, Fit::kDrop},
                   {"NAN", Align::kRight},
                   {"INF", Align::kRight, Fit::kDrop}});
  for (const LeafStats* leaf : listed) AddStats(*leaf, &table);
  if (!listed.empty()) table.Print(TableStyleOf(args, env), env.out);
  if (args.quiet) return;
  const bool bold = UseColor(args, env);
  env.out << (bold ? "\x1b[1m" : "")
          << Counted(result.leaves.size(), "tensor", "tensors") << ", "
          << result.element_count << " elements, " << HumanBytes(result.bytes)
          << ", l2 " << NumberText(result.l2_norm) << ", absmax "
          << NumberText(result.absmax) << ", " << result.zero_count
          << " zeros, " << result.nan_count << " NaN, " << result.infinity_count
          << " infinite" << (bold ? "\x1b[0m" : "") << '\n';
  PrintAdvice(result, env.out);
}

void WriteNumber(std::string_view key, const std::optional<Scalar>& number,
                 JsonWriter* json) {
  json->Key(key);
  if (!number) return json->Null();
  WriteElement(number->dtype, number->bytes.data(), json);
}

void WriteLeafStats(const LeafStats& leaf, JsonWriter* json) {
  json->BeginObject();
  json->Field("name", leaf.name);
  json->Field("dtype", DTypeName(leaf.dtype));
  json->ShapeField("shape", leaf.shape);
  json->Field("bytes", leaf.bytes);
  json->Field("element_count", leaf.element_count);
  if (!leaf.problem.ok()) {
    json->Field("error", leaf.problem.ToString());
    return json->EndObject();
  }
  json->Field("finite_count", leaf.finite_count);
  json->Field("zero_count", leaf.zero_count);
  json->Field("nan_count", leaf.nan_count);
  json->Field("infinity_count", leaf.infinity_count());
  WriteNumber("min", leaf.min, json);
  WriteNumber("max", leaf.max, json);
  WriteNumber("absmax", leaf.absmax, json);
  json->Field("mean", leaf.mean);
  if (DTypeKindOf(leaf.dtype) == DTypeKind::kComplex) {
    json->Field("mean_imaginary", leaf.mean_imaginary);
  }
  json->Field("std", leaf.std);
  json->Field("l2_norm", leaf.l2_norm);
  json->EndObject();
}

void PrintStatsJson(const Checkpoint& checkpoint, const StatsResult& result,
                    const std::vector<const LeafStats*>& listed,
                    std::ostream& out) {
  JsonWriter json(out);
  json.BeginObject();
  json.Field("path", checkpoint.info().path);
  json.Field("format", checkpoint.info().format);
  json.Key("leaves");
  json.BeginArray();
  for (const LeafStats* leaf : listed) WriteLeafStats(*leaf, &json);
  json.EndArray();
  json.Field("leaf_count", static_cast<uint64_t>(result.leaves.size()));
  json.Field("element_count", result.element_count);
  json.Field("bytes", result.bytes);
  json.Field("stored_bytes", result.stats.stored_bytes);
  json.Field("planes_bytes", result.planes_bytes);
  json.Field("zero_count", result.zero_count);
  json.Field("nan_count", result.nan_count);
  json.Field("infinity_count", result.infinity_count);
  json.Field("l2_norm", result.l2_norm);
  json.Field("absmax", result.absmax);
  json.EndObject();
  out << '\n';
}

// Returns the exit code. Damage takes precedence over the result of --nan.
int ExitCodeOfStats(const StatsResult& result, const StatsArgs& args,
                    Env& env) {
  int code = kExitFine;
  for (const LeafStats& leaf : result.leaves) {
    if (leaf.problem.ok()) continue;
    const int failure = Fail(env, leaf.problem.WithContext(leaf.name));
    if (code != kExitDamaged) code = failure;
  }
  const bool is_bad = args.only_non_finite && result.non_finite_leaf_count > 0;
  return is_bad ? kExitDamaged : code;
}

int RunStats(const StatsArgs& args, Env& env) {
  OpenOptions open = args.open;
  open.stored_sizes = false;
  const auto opened = Open(args.operands[0], open);
  if (!opened.ok()) return Fail(env, opened.status());
  const Checkpoint& checkpoint = **opened;
  const auto selected =
      SelectLeaves(checkpoint.leaves(), std::span(args.operands).subspan(1),
                   PatternKindOf(args));
  if (!selected.ok()) return Fail(env, selected.status());
  const auto result = StatsWithProgress(checkpoint, *selected, args, env);
  if (!result.ok()) return Fail(env, result.status());
  const std::vector<const LeafStats*> listed = Listed(*result, args);
  if (args.json) {
    PrintStatsJson(checkpoint, *result, listed, env.out);
  } else {
    PrintStatsText(*result, listed, args, env);
  }
  return ExitCodeOfStats(*result, args, env);
}

}  // namespace

int RunStats(const Words& words, Env& env) {
  return RunFilled<StatsArgs>(words, env, RunStats);
}

}  // namespace holdfast::cli
