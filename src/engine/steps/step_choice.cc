#include "engine/steps/step_choice.h"

#include <chrono>
#include <cmath>
#include <cstdio>
#include <optional>
#include <set>

#include "engine/steps/step_scan.h"
#include "ground/base/text.h"

namespace holdfast {
namespace {

std::string NameOfStep(const ScannedStep& step) {
  return "step " + std::to_string(step.step);
}

Status NoStepHere(const StepAddress& address, const std::string& why) {
  return NotFoundError("no step \"@" + address.text + "\" of " + address.root +
                       ": " + why);
}

Result<std::string> ChooseByNumber(const std::vector<ScannedStep>& steps,
                                   const StepAddress& address) {
  const ScannedStep* below = nullptr;
  const ScannedStep* above = nullptr;
  // If a step has two directories the last one counts, as in Open.
  for (const ScannedStep& step : steps) {
    if (step.step <= address.step) below = &step;
    if (step.step > address.step && above == nullptr) above = &step;
  }
  if (below != nullptr && below->step == address.step) return below->name;
  std::string nearest;
  if (below != nullptr) nearest = std::to_string(below->step);
  if (above != nullptr) {
    nearest += (nearest.empty() ? "" : " and ") + std::to_string(above->step);
  }
  return NoStepHere(address, "the nearest is " + nearest + ", of " +
                                 std::to_string(steps.size()) + " from " +
                                 std::to_string(steps.front().step) + " to " +
                                 std::to_string(steps.back().step));
}

Result<std::string> ChooseByTime(const std::vector<ScannedStep>& steps,
                                 const StepAddress& address) {
  const ScannedStep* newest = nullptr;
  const ScannedStep* oldest = nullptr;
  for (const ScannedStep& step : steps) {
    if (step.commit_time_ns == 0) continue;  // its time is not known
    if (oldest == nullptr || step.commit_time_ns < oldest->commit_time_ns) {
      oldest = &step;
    }
    if (step.commit_time_ns > address.time_ns) continue;
    if (newest == nullptr || step.commit_time_ns >= newest->commit_time_ns) {
      newest = &step;
    }
  }
  if (newest != nullptr) return newest->name;
  if (oldest == nullptr) {
    return NoStepHere(address, "no step says when it was committed");
  }
  return NoStepHere(address,
                    "none was committed by " + IsoTimeText(address.time_ns) +
                        "; the oldest, " + NameOfStep(*oldest) + ", was at " +
                        IsoTimeText(oldest->commit_time_ns));
}

Result<std::string> ChooseByMetric(const std::vector<ScannedStep>& steps,
                                   const StepAddress& address) {
  const ScannedStep* best = nullptr;
  double best_value = 0;
  bool is_known = false;
  std::set<std::string> names;
  for (const ScannedStep& step : steps) {
    const StepRecord record = RecordOf(step);
    if (!record.metrics) continue;
    for (const auto& [name, value] : record.metrics->values) names.insert(name);
    const auto value = record.metrics->Find(address.metric);
    if (!value) continue;
    is_known = true;
    const double rank = address.is_largest ? -*value : *value;
    // Among equal steps the newest wins.
    if (std::isnan(rank) || (best != nullptr && rank > best_value)) continue;
    best = &step;
    best_value = rank;
  }
  if (best != nullptr) return best->name;
  if (is_known) {
    return NoStepHere(address, address.metric + " is not a number in any step");
  }
  if (names.empty()) return NoStepHere(address, "no step has metrics");
  return NoStepHere(address, "no step has a metric of this name; there are " +
                                 Joined({names.begin(), names.end()}, ", "));
}

}  // namespace

std::string IsoTimeText(int64_t time_ns) {
  using namespace std::chrono;
  const sys_seconds time{seconds(time_ns / kNsASecond)};
  const auto day = floor<days>(time);
  const year_month_day date{day};
  const hh_mm_ss clock{time - day};
  char text[32];
  std::snprintf(text, sizeof(text), "%04d-%02u-%02uT%02d:%02d:%02dZ",
                static_cast<int>(date.year()),
                static_cast<unsigned>(date.month()),
                static_cast<unsigned>(date.day()),
                static_cast<int>(clock.hours().count()),
                static_cast<int>(clock.minutes().count()),
                static_cast<int>(clock.seconds().count()));
  return text;
}

Result<std::string> ChooseStep(const std::vector<ScannedStep>& steps,
                               const StepAddress& address) {
  if (steps.empty()) {
    return NoStepHere(address, "it holds no committed steps");
  }
  switch (address.kind) {
    case StepAddress::Kind::kStep:
      return ChooseByNumber(steps, address);
    case StepAddress::Kind::kTime:
      return ChooseByTime(steps, address);
    case StepAddress::Kind::kBest:
      return ChooseByMetric(steps, address);
    case StepAddress::Kind::kLatest:
      break;
  }
  return InternalError("ChooseStep of the latest step");
}

}  // namespace holdfast
