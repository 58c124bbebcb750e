// info: summarizes a checkpoint on one screen.

#include <cstdio>
#include <map>

#include "cli/failures.h"
#include "cli/leaf_text.h"
#include "cli/units.h"
#include "cli/verbs.h"
#include "holdfast/checkpoint.h"

namespace holdfast::cli {
namespace {

struct Summary {
  LeafTotals totals;
  std::map<std::string, LeafTotals> by_kind;
  std::map<std::string, LeafTotals> by_dtype;
};

Summary Summarise(const std::vector<LeafInfo>& leaves) {
  Summary summary;
  for (const LeafInfo& leaf : leaves) {
    summary.totals.Add(leaf);
    summary.by_kind[std::string(ValueKindName(leaf.kind))].Add(leaf);
    if (!leaf.dtype) continue;
    summary.by_dtype[std::string(DTypeName(*leaf.dtype))].Add(leaf);
  }
  return summary;
}

// Returns the decoded bytes per stored byte, or 0 if nothing is stored.
double Ratio(const LeafTotals& totals) {
  if (totals.stored_bytes == 0) return 0;
  return static_cast<double>(totals.decoded_bytes) /
         static_cast<double>(totals.stored_bytes);
}

// Returns true if the format has several layouts. Foreign formats have only one
// each.
bool HasLayout(const CheckpointInfo& info) {
  return info.use_ocdbt || info.zarr_format != 0 ||
         info.format.starts_with("orbax");
}

std::string LayoutText(const CheckpointInfo& info) {
  std::string text = info.use_ocdbt ? "ocdbt" : "directories";
  if (info.zarr_format != 0) {
    text += ", zarr v" + std::to_string(info.zarr_format);
  }
  return text;
}

class InfoPrinter {
 public:
  InfoPrinter(const Args& args, Env& env)
      : out_(env.out), color_(UseColor(args, env)) {}

  void Line(const std::string& label, const std::string& value) {
    std::string padded = label;
    padded.resize(12, ' ');
    out_ << (color_ ? "\x1b[1m" : "") << padded << (color_ ? "\x1b[0m" : "")
         << value << '\n';
  }

  void Histogram(const std::string& label,
                 const std::map<std::string, LeafTotals>& groups) {
    std::string first = label;
    for (const auto& [name, totals] : groups) {
      std::string padded = name;
      padded.resize(std::max<size_t>(padded.size(), 20), ' ');
      std::string text = Counted(totals.leaf_count, "leaf", "leaves");
      if (totals.parameter_count > 0) text += ", " + ParametersText(totals);
      text += ", " + HumanBytes(totals.decoded_bytes);
      Line(first, padded + "  " + text);
      first.clear();
    }
  }

 private:
  std::ostream& out_;
  const bool color_;
};

std::string ItemsText(const std::map<std::string, std::string>& items) {
  std::string text;
  for (const auto& [name, directory] : items) {
    if (!text.empty()) text += ", ";
    text += name.empty() ? "(one, unnamed)" : name;
  }
  return PrintableText(text);
}

// Returns "/models/m/model.safetensors", or "12 files, /models/m/a.safetensors
// first".
std::string SourcesText(const CheckpointInfo& info) {
  const std::string first = PrintableText(info.sources.front());
  if (info.sources.size() == 1) return first;
  return std::to_string(info.sources.size()) + " files, " + first + " first";
}

void PrintInfoText(const CheckpointInfo& info, const Summary& summary,
                   const Args& args, Env& env) {
  InfoPrinter printer(args, env);
  printer.Line("path", PrintableText(info.path));
  printer.Line("format", PrintableText(info.format));
  if (info.step) printer.Line("step", std::to_string(*info.step));
  if (!info.items.empty()) printer.Line("items", ItemsText(info.items));
  if (!info.sources.empty()) printer.Line("view of", SourcesText(info));
  for (const std::string& base : info.bases) {
    printer.Line("delta of", PrintableText(base));
  }
  if (HasLayout(info)) printer.Line("layout", LayoutText(info));
  printer.Line("leaves", std::to_string(summary.totals.leaf_count));
  printer.Line("parameters", HumanCount(summary.totals.parameter_count));
  printer.Line("chunks", std::to_string(summary.totals.chunk_count));
  printer.Line("stored", HumanBytes(summary.totals.stored_bytes));
  printer.Line("decoded", HumanBytes(summary.totals.decoded_bytes));
  if (summary.totals.stored_bytes > 0) {
    char ratio[32];
    std::snprintf(ratio, sizeof(ratio), "%.2f", Ratio(summary.totals));
    printer.Line("ratio", ratio);
  }
  printer.Histogram("kinds", summary.by_kind);
  printer.Histogram("dtypes", summary.by_dtype);
  if (info.init_timestamp_ns) {
    printer.Line("begun", IsoTime(*info.init_timestamp_ns));
  }
  if (info.commit_timestamp_ns) {
    printer.Line("committed", IsoTime(*info.commit_timestamp_ns));
  }
  if (!info.custom_metadata.empty()) {
    printer.Line("metadata", PrintableText(info.custom_metadata));
  }
}

void WriteGroups(std::string_view key,
                 const std::map<std::string, LeafTotals>& groups,
                 JsonWriter* json) {
  json->Key(key);
  json->BeginObject();
  for (const auto& [name, totals] : groups) {
    json->Key(name);
    json->BeginObject();
    WriteTotals(totals, json);
    json->EndObject();
  }
  json->EndObject();
}

void WriteTime(const std::string& key, const std::optional<int64_t>& ns,
               JsonWriter* json) {
  if (!ns) {
    json->NullField(key);
    json->NullField(key + "_ns");
    return;
  }
  json->Field(key, IsoTime(*ns));
  json->Field(key + "_ns", *ns);
}

void PrintInfoJson(const CheckpointInfo& info, const Summary& summary,
                   std::ostream& out) {
  JsonWriter json(out);
  json.BeginObject();
  json.Field("path", info.path);
  json.Field("format", info.format);
  if (info.step) {
    json.Field("step", *info.step);
  } else {
    json.NullField("step");
  }
  json.Key("items");
  json.BeginObject();
  for (const auto& [name, directory] : info.items) json.Field(name, directory);
  json.EndObject();
  json.StringsField("sources", info.sources);
  json.StringsField("bases", info.bases);
  json.Field("use_ocdbt", info.use_ocdbt);
  json.Field("zarr_format", info.zarr_format);
  WriteTotals(summary.totals, &json);
  json.Field("ratio", Ratio(summary.totals));
  WriteGroups("kinds", summary.by_kind, &json);
  WriteGroups("dtypes", summary.by_dtype, &json);
  WriteTime("init_timestamp", info.init_timestamp_ns, &json);
  WriteTime("commit_timestamp", info.commit_timestamp_ns, &json);
  json.EmbeddedField("custom_metadata", info.custom_metadata);
  json.EndObject();
  out << '\n';
}

}  // namespace

int RunInfo(const Args& args, Env& env) {
  const auto opened = Open(args.operands[0], args.open);
  if (!opened.ok()) return Fail(env, opened.status());
  const Checkpoint& checkpoint = **opened;
  const Summary summary = Summarise(checkpoint.leaves());
  if (args.json) {
    PrintInfoJson(checkpoint.info(), summary, env.out);
  } else {
    PrintInfoText(checkpoint.info(), summary, args, env);
  }
  return FailIfUnreadable(env, checkpoint.leaves());
}

}  // namespace holdfast::cli
