// diff: shows the differences between two checkpoints.

#include <algorithm>
#include <cstdio>

#include "cli/element_text.h"
#include "cli/failures.h"
#include "cli/job_progress.h"
#include "cli/json_out.h"
#include "cli/leaf_text.h"
#include "cli/map_rules.h"
#include "cli/select.h"
#include "cli/text_table.h"
#include "cli/units.h"
#include "cli/verbs.h"
#include "holdfast/checkpoint.h"
#include "holdfast/tools/diff.h"
#include "holdfast/tools/glob.h"

namespace holdfast::cli {
namespace {

struct DiffArgs : MappingArgs {
  DiffOptions diff;
  uint64_t line_count_max = 50;  // 0: all

  template <typename Fn>
  void Fields(const Fn& fn) {
    MappingArgs::Fields(fn);
    fn("atol", diff.atol);
    fn("rtol", diff.rtol);
    fn("equal_nan", diff.equal_nan);
    fn("equal_bits", diff.equal_bits);
    fn("ignore_dtype", diff.ignore_dtype);
    fn("only_structure", diff.only_structure);
    fn("by_fingerprint", diff.by_fingerprint);
    fn("find_renamed", diff.find_renamed);
    fn("line_count", line_count_max);
  }
};

struct TwoCheckpoints {
  std::unique_ptr<Checkpoint> a;
  std::unique_ptr<Checkpoint> b;
};

Result<TwoCheckpoints> OpenBoth(const DiffArgs& args) {
  OpenOptions options = args.open;
  options.stored_sizes = false;
  options.fingerprints = args.diff.by_fingerprint;
  auto a = Open(args.operands[0], options);
  if (!a.ok()) return a.status();
  auto b = Open(args.operands[1], options);
  if (!b.ok()) return b.status();
  return TwoCheckpoints{*std::move(a), *std::move(b)};
}

// Refuses a pattern that selects nothing in either checkpoint.
Status CheckPatterns(const TwoCheckpoints& both,
                     std::span<const std::string> patterns) {
  for (const std::string& pattern : patterns) {
    const auto selects = [&](const LeafInfo& leaf) {
      return GlobSelects(pattern, leaf.name);
    };
    const auto& a = both.a->leaves();
    const auto& b = both.b->leaves();
    if (std::any_of(a.begin(), a.end(), selects) ||
        std::any_of(b.begin(), b.end(), selects)) {
      continue;
    }
    return NotFoundError("no leaf of either matches '" + pattern + "'");
  }
  return Status();
}

DiffOptions DiffOptionsOf(const DiffArgs& args, const Env& env) {
  DiffOptions options = args.diff;
  options.run = RunOptionsOf(args, env);
  const auto patterns = std::span(args.operands).subspan(2);
  if (!patterns.empty()) {
    options.select = [patterns](const LeafInfo& leaf) {
      return std::any_of(patterns.begin(), patterns.end(),
                         [&](const std::string& pattern) {
                           return GlobSelects(pattern, leaf.name);
                         });
    };
  }
  return options;
}

Result<DiffResult> DiffWithProgress(const TwoCheckpoints& both,
                                    const DiffArgs& args, Env& env) {
  DiffOptions options = DiffOptionsOf(args, env);
  auto map = MapRules(args);
  if (!map.ok()) return map.status();
  options.map = *std::move(map);
  const JobProgress progress(args, env, {.label = "diff"}, options.run);
  return Diff(*both.a, *both.b, options);
}

std::string ErrorText(double error) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3g", error);
  return text;
}

// Describes a leaf on one side.
std::string SideText(const Checkpoint& checkpoint,
                     const std::optional<size_t>& leaf) {
  if (!leaf) return "-";
  const LeafInfo& info = checkpoint.leaves()[*leaf];
  if (info.kind == ValueKind::kArray) return TypeText(info);
  const std::string kind(ValueKindName(info.kind));
  return info.dtype ? kind + " " + TypeText(info) : kind;
}

std::string CountText(const LeafDiff& leaf) {
  if (leaf.element_count == 0) return "-";
  const uint64_t count =
      leaf.different_count > 0 ? leaf.different_count : leaf.bits_only_count;
  if (count == 0) return "0";
  const std::string text =
      std::to_string(count) + "/" + std::to_string(leaf.element_count);
  return leaf.different_count > 0 ? text : text + " bits";
}

std::string IndexText(const Shape& index) {
  if (index.empty()) return "";
  std::string text = "[";
  for (size_t i = 0; i < index.size(); ++i) {
    text += (i > 0 ? "," : "") + std::to_string(index[i]);
  }
  return text + "] ";
}

std::string NoteText(const TwoCheckpoints& both, const LeafDiff& leaf) {
  if (!leaf.problem.ok()) return PrintableText(leaf.problem.ToString());
  if (leaf.renamed) {
    const Checkpoint& other = leaf.a ? *both.b : *both.a;
    const std::string name = PrintableText(other.leaves()[*leaf.renamed].name);
    return leaf.a ? "equals B's " + name : "equals A's " + name;
  }
  if (leaf.first_byte) return "byte " + std::to_string(*leaf.first_byte);
  if (!leaf.first_index) return "";
  std::string text =
      IndexText(*leaf.first_index) +
      ElementText(leaf.first_a.dtype, leaf.first_a.bytes.data()) +
      (leaf.different_count > 0 ? " != " : " == ") +
      ElementText(leaf.first_b.dtype, leaf.first_b.bytes.data());
  if (leaf.nan_mismatch_count > 0) {
    text += ", NaN on one side: " + std::to_string(leaf.nan_mismatch_count);
  }
  return text;
}

void AddDiff(const TwoCheckpoints& both, const LeafDiff& leaf,
             TextTable* table) {
  std::string name = PrintableText(leaf.name);
  if (!leaf.name_b.empty()) name += " -> " + PrintableText(leaf.name_b);
  const std::string side_a = SideText(*both.a, leaf.a);
  const std::string side_b = SideText(*both.b, leaf.b);
  const bool has_errors = leaf.different_count > 0;
  std::string error = has_errors ? ErrorText(leaf.max_abs_error) : "-";
  if (has_errors && leaf.max_abs_error_exact) {
    error = std::to_string(*leaf.max_abs_error_exact);
  }
  table->AddRow(
      {std::string(DiffVerdictName(leaf.verdict)), std::move(name), side_a,
       side_a == side_b ? "=" : side_b, CountText(leaf), std::move(error),
       has_errors ? ErrorText(leaf.max_rel_error) : "-", NoteText(both, leaf)});
}

// Counts leaves that pass although some elements differ.
uint64_t CountClose(const DiffResult& result) {
  return static_cast<uint64_t>(std::count_if(
      result.leaves.begin(), result.leaves.end(), [](const LeafDiff& leaf) {
        return leaf.verdict == DiffVerdict::kSame &&
               leaf.different_count + leaf.bits_only_count > 0;
      }));
}

std::string DiffTotalsText(const DiffResult& result) {
  std::string text = result.is_same() ? "same: " : "different: ";
  text += Counted(result.same_count, "leaf", "leaves") + " the same";
  const auto add = [&](uint64_t count, std::string_view what) {
    if (count > 0) text += ", " + std::to_string(count) + std::string(what);
  };
  add(CountClose(result), " of them not in every bit");
  add(result.different_count, " different");
  add(result.only_in_a_count, " only in A");
  add(result.only_in_b_count, " only in B");
  add(result.unreadable_count, " unreadable");
  if (result.max_abs_error > 0) {
    text += "; max abs error " + ErrorText(result.max_abs_error) +
            ", max rel error " + ErrorText(result.max_rel_error);
  }
  return text;
}

void PrintDiffText(const TwoCheckpoints& both, const DiffResult& result,
                   const DiffArgs& args, Env& env) {
  BeginListing(args, env);
  TextTable table({{"WHAT"},
                   {"NAME", Align::kLeft, Fit::kShortenName},
                   {"A"},
                   {"B"},
                   {"DIFFERENT", Align::kRight},
                   {"MAX ABS", Align::kRight, Fit::kDrop},
                   {"MAX REL", Align::kRight, Fit::kDrop},
                   {"FIRST", Align::kLeft, Fit::kDrop}});
  const std::vector<size_t> worst = WorstFirst(result);
  const uint64_t shown =
      args.line_count_max == 0
          ? worst.size()
          : std::min<uint64_t>(worst.size(), args.line_count_max);
  for (uint64_t i = 0; i < shown; ++i) {
    AddDiff(both, result.leaves[worst[i]], &table);
  }
  if (shown > 0) table.Print(TableStyleOf(args, env), env.out);
  if (args.quiet) return;
  if (shown < worst.size()) {
    env.out << "... and " << worst.size() - shown
            << " more (--max-lines 0 prints all)\n";
  }
  const bool bold = UseColor(args, env);
  env.out << (bold ? "\x1b[1m" : "") << DiffTotalsText(result)
          << (bold ? "\x1b[0m" : "") << '\n';
}

void WriteSide(std::string_view name, const Checkpoint& checkpoint,
               const std::optional<size_t>& leaf, JsonWriter* json) {
  json->Key(name);
  if (!leaf) return json->Null();
  const LeafInfo& info = checkpoint.leaves()[*leaf];
  json->BeginObject();
  json->Field("name", info.name);
  WriteTypeFields(info, json);
  WriteShapeField(info, json);
  json->EndObject();
}

void WriteValues(const LeafDiff& leaf, JsonWriter* json) {
  json->Field("element_count", leaf.element_count);
  json->Field("different_count", leaf.different_count);
  json->Field("beyond_count", leaf.beyond_count);
  json->Field("nan_mismatch_count", leaf.nan_mismatch_count);
  json->Field("bits_only_count", leaf.bits_only_count);
  json->Field("max_abs_error", leaf.max_abs_error);
  json->Field("max_rel_error", leaf.max_rel_error);
  if (leaf.max_abs_error_exact) {
    json->Field("max_abs_error_exact", *leaf.max_abs_error_exact);
  }
  if (leaf.first_byte) json->Field("first_byte", *leaf.first_byte);
  if (!leaf.first_index) return;
  json->ShapeField("first_index", *leaf.first_index);
  json->Key("first_a");
  WriteElement(leaf.first_a.dtype, leaf.first_a.bytes.data(), json);
  json->Key("first_b");
  WriteElement(leaf.first_b.dtype, leaf.first_b.bytes.data(), json);
}

void WriteLeafDiff(const TwoCheckpoints& both, const LeafDiff& leaf,
                   JsonWriter* json) {
  json->BeginObject();
  json->Field("name", leaf.name);
  json->Field("what", DiffVerdictName(leaf.verdict));
  WriteSide("a", *both.a, leaf.a, json);
  WriteSide("b", *both.b, leaf.b, json);
  if (leaf.renamed) {
    const Checkpoint& other = leaf.a ? *both.b : *both.a;
    json->Field("renamed", other.leaves()[*leaf.renamed].name);
  }
  if (leaf.a && leaf.b) WriteValues(leaf, json);
  if (!leaf.problem.ok()) json->Field("error", leaf.problem.ToString());
  json->EndObject();
}

void PrintDiffJson(const TwoCheckpoints& both, const DiffResult& result,
                   const DiffArgs& args, std::ostream& out) {
  JsonWriter json(out);
  json.BeginObject();
  json.Field("path", args.operands[0]);
  json.Field("a", args.operands[0]);
  json.Field("b", args.operands[1]);
  json.Field("same", result.is_same());
  json.Field("same_count", result.same_count);
  json.Field("close_count", CountClose(result));
  json.Field("different_count", result.different_count);
  json.Field("only_in_a_count", result.only_in_a_count);
  json.Field("only_in_b_count", result.only_in_b_count);
  json.Field("unreadable_count", result.unreadable_count);
  json.Field("max_abs_error", result.max_abs_error);
  json.Field("max_rel_error", result.max_rel_error);
  json.Key("leaves");
  json.BeginArray();
  for (const size_t i : WorstFirst(result)) {
    WriteLeafDiff(both, result.leaves[i], &json);
  }
  for (const LeafDiff& leaf : result.leaves) {
    const bool is_close = leaf.verdict == DiffVerdict::kSame &&
                          leaf.different_count + leaf.bits_only_count > 0;
    if (is_close) WriteLeafDiff(both, leaf, &json);
  }
  json.EndArray();
  json.EndObject();
  out << '\n';
}

// Returns the exit code. Damage and differences are answers. Any other failure
// is an error.
int CodeOf(const DiffResult& result) {
  if (result.is_same()) return kExitFine;
  const bool is_only_unreadable =
      result.unreadable_count > 0 && result.different_count == 0 &&
      result.only_in_a_count + result.only_in_b_count == 0;
  if (!is_only_unreadable) return kExitDamaged;
  int code = kExitFailure;
  for (const LeafDiff& leaf : result.leaves) {
    if (leaf.problem.ok()) continue;
    if (ExitCodeOf(leaf.problem) == kExitDamaged) code = kExitDamaged;
  }
  return code;
}

int RunDiff(const DiffArgs& args, Env& env) {
  const Status no_recipe = CheckNoRecipe(args);
  if (!no_recipe.ok()) return Fail(env, no_recipe);
  const auto both = OpenBoth(args);
  if (!both.ok()) return Fail(env, both.status());
  const Status found =
      CheckPatterns(*both, std::span(args.operands).subspan(2));
  if (!found.ok()) return Fail(env, found);
  const auto result = DiffWithProgress(*both, args, env);
  if (!result.ok()) return Fail(env, result.status());
  if (args.json) {
    PrintDiffJson(*both, *result, args, env.out);
  } else {
    PrintDiffText(*both, *result, args, env);
  }
  return CodeOf(*result);
}

}  // namespace

int RunDiff(const Words& words, Env& env) {
  return RunFilled<DiffArgs>(words, env, RunDiff);
}

}  // namespace holdfast::cli
