// steps: lists the step directories of a root.

#include "cli/failures.h"
#include "cli/json_out.h"
#include "cli/step_text.h"
#include "cli/text_table.h"
#include "cli/units.h"
#include "cli/verbs.h"
#include "holdfast/checkpoint.h"

namespace holdfast::cli {
namespace {

std::string Join(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) {
    if (!text.empty()) text += ',';
    text += word;
  }
  return text.empty() ? "-" : PrintableText(text);
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
    // Print the name, which says more than the number if they differ.
    table.AddRow(
        {PrintableText(step.name),
         step.commit_timestamp_ns ? IsoTime(*step.commit_timestamp_ns) : "-",
         HumanBytes(step.bytes), Join(step.items), MetricsText(step.metrics),
         StateText(step, color)});
  }
  table.Print(TableStyleOf(args, env), env.out);
}

void PrintStepsJson(const std::string& root, const std::vector<StepInfo>& steps,
                    std::ostream& out) {
  JsonWriter json(out);
  json.BeginObject();
  json.Field("path", root);
  json.Field("root", root);
  json.Key("steps");
  json.BeginArray();
  for (const StepInfo& step : steps) {
    json.BeginObject();
    WriteStepFields(step, &json);
    json.EndObject();
  }
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
