// ls: prints one line per leaf.

#include <algorithm>

#include "cli/failures.h"
#include "cli/leaf_text.h"
#include "cli/select.h"
#include "cli/text_table.h"
#include "cli/units.h"
#include "cli/verbs.h"
#include "holdfast/checkpoint.h"

namespace holdfast::cli {
namespace {

struct LsArgs : Args {
  bool long_listing = false;
  SortKey sort = SortKey::kCheckpoint;

  template <typename Fn>
  void Fields(const Fn& fn) {
    Args::Fields(fn);
    fn("long", long_listing);
    fn("sort", sort);
  }
};

void SortLeaves(const std::vector<LeafInfo>& leaves, SortKey key,
                std::vector<size_t>* order) {
  if (key == SortKey::kName) {
    std::stable_sort(order->begin(), order->end(), [&](size_t a, size_t b) {
      return leaves[a].name < leaves[b].name;
    });
  }
  if (key == SortKey::kSize) {
    std::stable_sort(order->begin(), order->end(), [&](size_t a, size_t b) {
      return leaves[a].decoded_bytes > leaves[b].decoded_bytes;
    });
  }
}

std::string BytesText(uint64_t bytes, bool exact) {
  return exact ? std::to_string(bytes) : HumanBytes(bytes);
}

TextTable MakeTable(bool long_listing) {
  std::vector<TextColumn> columns = {{"NAME", Align::kLeft, Fit::kShortenName},
                                     {"KIND", Align::kLeft, Fit::kDrop},
                                     {"TYPE"}};
  if (long_listing) {
    columns.push_back({"VALUE TYPE", Align::kLeft, Fit::kDrop});
    columns.push_back({"CHUNK", Align::kLeft, Fit::kDrop});
  }
  columns.push_back({"CHUNKS", Align::kRight, Fit::kDrop});
  columns.push_back({"STORED", Align::kRight, Fit::kDrop});
  columns.push_back({"DECODED", Align::kRight});
  columns.push_back({"CODEC", Align::kLeft, Fit::kDrop});
  return TextTable(std::move(columns));
}

std::string OrDash(const std::string& text) {
  return text.empty() ? "-" : PrintableText(text);
}

void AddLeaf(const LeafInfo& leaf, bool long_listing, TextTable* table) {
  std::vector<std::string> cells = {PrintableText(leaf.name),
                                    std::string(ValueKindName(leaf.kind)),
                                    TypeText(leaf)};
  if (long_listing) {
    cells.push_back(OrDash(leaf.value_type));
    cells.push_back(leaf.kind == ValueKind::kArray ? ShapeText(leaf.chunk_shape)
                                                   : "-");
  }
  cells.push_back(HasShape(leaf) ? std::to_string(leaf.chunk_count) : "-");
  cells.push_back(BytesText(leaf.stored_bytes, long_listing));
  cells.push_back(BytesText(leaf.decoded_bytes, long_listing));
  cells.push_back(OrDash(leaf.codecs));
  table->AddRow(std::move(cells));
}

void PrintLsText(const std::vector<LeafInfo>& leaves,
                 const std::vector<size_t>& order, const LsArgs& args,
                 Env& env) {
  BeginListing(args, env);
  TextTable table = MakeTable(args.long_listing);
  LeafTotals totals;
  for (const size_t i : order) {
    AddLeaf(leaves[i], args.long_listing, &table);
    totals.Add(leaves[i]);
  }
  const bool bold = UseColor(args, env) && !args.quiet;
  table.Print(TableStyleOf(args, env), env.out);
  if (args.quiet) return;
  env.out << (bold ? "\x1b[1m" : "") << TotalsText(totals)
          << (bold ? "\x1b[0m" : "") << '\n';
}

void PrintLsJson(const Checkpoint& checkpoint, const std::vector<size_t>& order,
                 std::ostream& out) {
  JsonWriter json(out);
  LeafTotals totals;
  json.BeginObject();
  json.Field("path", checkpoint.info().path);
  json.Field("format", checkpoint.info().format);
  json.Key("leaves");
  json.BeginArray();
  for (const size_t i : order) {
    json.BeginObject();
    WriteLeafFields(checkpoint.leaves()[i], &json);
    json.EndObject();
    totals.Add(checkpoint.leaves()[i]);
  }
  json.EndArray();
  WriteTotals(totals, &json);
  json.EndObject();
  out << '\n';
}

int RunLs(const LsArgs& args, Env& env) {
  if (args.sort > SortKey::kSize) {
    return FailUsage(env, "ls: --sort takes name or size");
  }
  OpenOptions options = args.open;
  options.leaves_only = true;
  const auto opened = Open(args.operands[0], options);
  if (!opened.ok()) return Fail(env, opened.status());
  const Checkpoint& checkpoint = **opened;
  auto selected =
      SelectLeaves(checkpoint.leaves(), std::span(args.operands).subspan(1),
                   PatternKindOf(args));
  if (!selected.ok()) return Fail(env, selected.status());
  SortLeaves(checkpoint.leaves(), args.sort, &*selected);
  if (args.json) {
    PrintLsJson(checkpoint, *selected, env.out);
  } else {
    PrintLsText(checkpoint.leaves(), *selected, args, env);
  }
  int code = kExitFine;
  for (const size_t i : *selected) {
    code = WorseExit(code, FailIfUnreadable(env, checkpoint.leaves()[i]));
  }
  return code;
}

}  // namespace

int RunLs(const Words& words, Env& env) {
  return RunFilled<LsArgs>(words, env, RunLs);
}

}  // namespace holdfast::cli
