#include "cli/step_text.h"

#include <nlohmann/json.hpp>

#include "cli/units.h"

namespace holdfast::cli {

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

std::string StateText(const StepInfo& step, bool color) {
  if (step.committed && step.damage.empty()) return "committed";
  const std::string why = step.committed
                              ? "damaged: " + PrintableText(step.damage)
                              : "no: " + PrintableText(step.why_not);
  return color ? "\x1b[33m" + why + "\x1b[0m" : why;
}

void WriteStepFields(const StepInfo& step, JsonWriter* json) {
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
}

}  // namespace holdfast::cli
