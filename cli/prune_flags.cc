#include "cli/prune_flags.h"

#include <algorithm>
#include <string>

#include "cli/flag_value.h"
#include "cli/units.h"

namespace holdfast::cli {

Status ApplyKeepLatest(std::string_view value, Args* args) {
  const auto count = ParseInt(value, 1, kCountMax);
  if (!count) return BadValue("keep-latest", value, "a number >= 1");
  args->keep.push_back({"the latest " + std::string(value), LatestN{*count}});
  return Status();
}

Status ApplyKeepEvery(std::string_view value, Args* args) {
  const auto interval = ParseInt(value, 1, kCountMax);
  if (!interval) return BadValue("keep-every", value, "a number >= 1");
  args->keep.push_back({"every " + std::string(value), EveryNSteps{*interval}});
  return Status();
}

Status ApplyKeepInterval(std::string_view value, Args* args) {
  const auto seconds = ParseSeconds(value);
  if (!seconds) {
    return BadValue("keep-interval", value, "a time such as 90m, 12h or 7d");
  }
  args->keep.push_back(
      {"one in " + std::string(value), EveryNSeconds{*seconds}});
  return Status();
}

Status ApplyKeepSince(std::string_view value, Args* args) {
  const auto seconds = ParseSeconds(value);
  if (!seconds) {
    return BadValue("keep-since", value, "a time such as 90m, 12h or 7d");
  }
  args->keep.push_back(
      {"the last " + std::string(value), LatestDuration{*seconds}});
  return Status();
}

Status ApplyKeepSteps(std::string_view value, Args* args) {
  CustomSteps steps;
  for (std::string_view rest = value; !rest.empty();) {
    const size_t comma = std::min(rest.find(','), rest.size());
    const auto step = ParseInt(rest.substr(0, comma), 0, kCountMax);
    if (!step) return BadValue("keep-steps", value, "steps such as 10,20");
    steps.steps.insert(*step);
    rest.remove_prefix(std::min(comma + 1, rest.size()));
  }
  if (steps.steps.empty()) {
    return BadValue("keep-steps", value, "steps such as 10,20");
  }
  args->keep.push_back({"as named", steps});
  return Status();
}

Status ApplyKeepBest(std::string_view value, Args* args) {
  args->keep_best = ParseInt(value, 1, kCountMax);
  if (args->keep_best) return Status();
  return BadValue("keep-best", value, "a number >= 1");
}

}  // namespace holdfast::cli
