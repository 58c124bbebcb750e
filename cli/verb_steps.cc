// steps: the step directories of a root.

#include <nlohmann/json.hpp>

#include "cli/json_out.h"
#include "cli/report.h"
#include "cli/text_table.h"
#include "cli/units.h"
#include "cli/verbs.h"
#include "holdfast/checkpoint.h"

namespace holdfast::cli {
namespace {

// {"loss": 0.5, "acc": 0.9} as "acc=0.9 loss=0.5"; other text as it is.
std::string MetricsText(const std::string& metrics) {
  if (metrics.empty()) return "-";
  const auto parsed = nlohmann::json::parse(metrics, nullptr, false);
  if (!parsed.is_object()) return PrintableText(metrics);
  std::string text;
  for (const auto& [name, value] : parsed.items()) {
    if (!text.empty()) text += ' ';
    text +=
        name + '=' +
        value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  }
  return text.empty() ? "-" : PrintableText(text);
}

std::string Join(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) {
    if (!text.empty()) text += ',';
    text += word;
  }
  return text.empty() ? "-" : PrintableText(text);
}

std::string StateText(const StepInfo& step, bool color) {
  if (step.committed && step.damage.empty()) return "committed";
  const std::string why = step.committed
                              ? "damaged: " + PrintableText(step.damage)
                              : "no: " + PrintableText(step.why_not);
  return color ? "\x1b[33m" + why + "\x1b[0m" : why;
}

void PrintStepsText(const std::vector<StepInfo>& steps, const Args& args,
                    Env& env) {
  BeginListing(args, env);
  TextTable table({{"STEP", Align::kRight},
                   {"TIME", Align::kLeft, Fit::kDrop},
                   {"SIZE", Align::kRight},
                   {"ITEMS", Align::kLeft, Fit::kDrop},
                   {"METRICS", Align::kLeft, Fit::kShorten},
                   {"COMMITTED"}});
  const bool color = UseColor(args, env);
  for (const StepInfo& step : steps) {
    // A name says more than the number where the two differ.
    table.AddRow(
        {PrintableText(step.name),
         step.commit_timestamp_ns ? IsoTime(*step.commit_timestamp_ns) : "-",
         HumanBytes(step.bytes), Join(step.items), MetricsText(step.metrics),
         StateText(step, color)});
  }
  table.Print(TableStyleOf(args, env), env.out);
}

void WriteStep(const StepInfo& step, JsonWriter* json) {
  json->BeginObject();
  json->Field("name", step.name);
  if (step.step) {
    json->Field("step", *step.step);
  } else {
    json->NullField("step");
  }
  json->Field("path", step.path);
  json->Field("committed", step.committed);
  json->Field("why_not", step.why_not);
  json->Field("damage", step.damage);
  if (step.commit_timestamp_ns) {
    json->Field("commit_timestamp", IsoTime(*step.commit_timestamp_ns));
    json->Field("commit_timestamp_ns", *step.commit_timestamp_ns);
  } else {
    json->NullField("commit_timestamp");
    json->NullField("commit_timestamp_ns");
  }
  json->Field("bytes", step.bytes);
  json->StringsField("items", step.items);
  json->EmbeddedField("metrics", step.metrics);
  json->EndObject();
}

void PrintStepsJson(const std::string& root, const std::vector<StepInfo>& steps,
                    std::ostream& out) {
  JsonWriter json(out);
  json.BeginObject();
  json.Field("path", root);
  json.Field("root", root);
  json.Key("steps");
  json.BeginArray();
  for (const StepInfo& step : steps) WriteStep(step, &json);
  json.EndArray();
  json.EndObject();
  out << '\n';
}

}  // namespace

int RunSteps(const Args& args, Env& env) {
  const auto steps = ListSteps(args.operands[0]);
  if (!steps.ok()) return Fail(env, steps.status());
  if (args.json) {
    PrintStepsJson(args.operands[0], *steps, env.out);
  } else {
    PrintStepsText(*steps, args, env);
  }
  return kExitFine;
}

}  // namespace holdfast::cli
