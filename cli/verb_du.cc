// du: shows the disk space of each step, item and kind of file.

#include "cli/failures.h"
#include "cli/json_out.h"
#include "cli/text_table.h"
#include "cli/units.h"
#include "cli/verbs.h"
#include "holdfast/steps/steps.h"

namespace holdfast::cli {
namespace {

void PrintTotals(const DiskUsage& usage, std::ostream& out) {
  const auto line = [&](std::string_view what, uint64_t bytes) {
    if (bytes > 0) out << what << HumanBytes(bytes) << '\n';
  };
  line("temporary  ", usage.temporary_bytes);
  line("trash      ", usage.trash_bytes);
  line("other      ", usage.other_bytes);
  out << "total      " << HumanBytes(usage.total_bytes);
  if (usage.shared_bytes > 0) {
    out << " (and " << HumanBytes(usage.shared_bytes)
        << " that other names share)";
  }
  out << '\n';
}

void PrintText(const DiskUsage& usage, const Args& args, Env& env) {
  TextTable table({{"STEP", Align::kRight},
                   {"ITEM", Align::kLeft, Fit::kShorten},
                   {"KIND"},
                   {"FILES", Align::kRight},
                   {"SIZE", Align::kRight},
                   {"SHARED", Align::kRight}});
  for (const UsageRow& row : usage.rows) {
    table.AddRow({PrintableText(row.step),
                  row.item.empty() ? "-" : PrintableText(row.item), row.kind,
                  std::to_string(row.file_count), HumanBytes(row.bytes),
                  row.shared_bytes > 0 ? HumanBytes(row.shared_bytes) : "-"});
  }
  table.Print(TableStyleOf(args, env), env.out);
  if (!args.quiet) PrintTotals(usage, env.out);
}

void PrintJson(const std::string& root, const DiskUsage& usage,
               std::ostream& out) {
  JsonWriter json(out);
  json.BeginObject();
  json.Field("path", root);
  json.Field("root", root);
  json.Key("rows");
  json.BeginArray();
  for (const UsageRow& row : usage.rows) {
    json.BeginObject();
    json.Field("step", row.step);
    json.Field("item", row.item);
    json.Field("kind", row.kind);
    json.Field("file_count", row.file_count);
    json.Field("bytes", row.bytes);
    json.Field("shared_bytes", row.shared_bytes);
    json.EndObject();
  }
  json.EndArray();
  json.Field("temporary_bytes", usage.temporary_bytes);
  json.Field("trash_bytes", usage.trash_bytes);
  json.Field("other_bytes", usage.other_bytes);
  json.Field("total_bytes", usage.total_bytes);
  json.Field("shared_bytes", usage.shared_bytes);
  json.EndObject();
  out << '\n';
}

}  // namespace

int RunDu(const Args& args, Env& env) {
  const auto usage = MeasureDiskUsage(args.operands[0]);
  if (!usage.ok()) return Fail(env, usage.status());
  if (args.json) {
    PrintJson(args.operands[0], *usage, env.out);
  } else {
    PrintText(*usage, args, env);
  }
  return kExitFine;
}

}  // namespace holdfast::cli
