// goodput: computes the share of its time that a run spends on training, and
// suggests how to raise it.

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/failures.h"
#include "cli/json_out.h"
#include "cli/text_table.h"
#include "cli/units.h"
#include "cli/verbs.h"
#include "holdfast/checkpoint.h"
#include "holdfast/tiers/goodput.h"

namespace holdfast::cli {
namespace {

struct GoodputArgs : Args {
  GoodputModel model = {.seed = 0};
  GoodputPolicy policy;
  uint64_t budget_bytes = 0;  // 0: simulate `policy`

  template <typename Fn>
  void Fields(const Fn& fn) {
    Args::Fields(fn);
    fn("host_count", model.host_count);
    fn("host_mtbf_seconds", model.host_mtbf_seconds);
    fn("lost_share", model.lost_share);
    fn("hosts_per_domain", model.hosts_per_domain);
    fn("domain_mtbf_seconds", model.domain_mtbf_seconds);
    fn("state_bytes", model.state_bytes);
    fn("step_seconds", model.step_seconds);
    fn("blocking_seconds", model.blocking_seconds);
    fn("local_bytes_per_second", model.local_bytes_per_second);
    fn("peer_bytes_per_second", model.peer_bytes_per_second);
    fn("shared_bytes_per_second", model.shared_bytes_per_second);
    fn("restart_seconds", model.restart_seconds);
    fn("simulated_seconds", model.simulated_seconds);
    fn("seed", model.seed);
    fn("local_every", policy.local_every);
    fn("shared_every", policy.shared_every);
    fn("data_shards", policy.data_shards);
    fn("parity_shards", policy.parity_shards);
    fn("budget_bytes", budget_bytes);
  }
};

std::string ShareText(double share) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2f%%", share * 100);
  return text;
}

std::string SizeText(double bytes) {
  constexpr double kBytesMax = 0x1p63;
  return HumanBytes(static_cast<uint64_t>(std::min(bytes, kBytesMax)));
}

// Returns `text` with the library's names of goodput's options as flags.
std::string WithFlagNames(std::string text, const Verb& verb) {
  for (const Flag& flag : AllFlags()) {
    if (flag.group != "verb" || !Applies(flag, verb)) continue;
    const std::string name = "--" + std::string(flag.name);
    for (size_t at = 0; (at = text.find(flag.option, at)) != text.npos;
         at += name.size()) {
      text.replace(at, flag.option.size(), name);
    }
  }
  return text;
}

// Measures how fast this machine saves to a directory, with every byte synced.
Result<double> MeasureLocalTier(const std::string& directory) {
  constexpr int64_t kByteCount = int64_t{256} << 20;
  auto array = Array::Allocate(DType::kUint8, {kByteCount});
  if (!array.ok()) return array.status();
  const std::string path = directory + "/.holdfast_goodput";
  SaveOptions options;
  options.compression = Compression::kNone;
  options.overwrite = true;
  const auto begun = std::chrono::steady_clock::now();
  const auto saved = Save(path, Tree::Dict({{"x", *array}}), options);
  const std::chrono::duration<double> seconds =
      std::chrono::steady_clock::now() - begun;
  std::error_code ignored;
  std::filesystem::remove_all(path, ignored);
  if (!saved.ok()) return saved.status();
  return static_cast<double>(kByteCount) / seconds.count();
}

void PrintPlans(const std::vector<GoodputPlan>& plans, const GoodputArgs& args,
                Env& env) {
  TextTable table({{"GOODPUT", Align::kRight},
                   {"LOCAL EVERY", Align::kRight},
                   {"SHARED EVERY", Align::kRight},
                   {"PARITY"},
                   {"BYTES A HOST", Align::kRight},
                   {"SAVES", Align::kRight},
                   {"DONE AGAIN", Align::kRight},
                   {"RESTARTS", Align::kRight},
                   {"RESTORES", Align::kRight}});
  for (const auto& [policy, result] : plans) {
    table.AddRow({ShareText(result.goodput), std::to_string(policy.local_every),
                  std::to_string(policy.shared_every),
                  std::to_string(policy.data_shards) + " + " +
                      std::to_string(policy.parity_shards),
                  SizeText(result.host_bytes), ShareText(result.blocked_share),
                  ShareText(result.redone_share),
                  ShareText(result.restart_share),
                  ShareText(result.restore_share)});
  }
  table.Print(TableStyleOf(args, env), env.out);
  if (args.quiet) return;
  const auto& [policy, result] = plans.front();
  env.out << '\n'
          << Counted(result.failure_count, "failure", "failures") << " in "
          << HumanSeconds(args.model.simulated_seconds) << ": "
          << result.local_count << " restored from the hosts, "
          << result.parity_count << " with parity, " << result.shared_count
          << " from the shared tier, " << result.nothing_count
          << " from nothing\n"
          << "a host receives " << SizeText(result.peer_bytes_per_step)
          << " a step for parity\n";
}

void PrintPlansJson(const std::vector<GoodputPlan>& plans, std::ostream& out) {
  JsonWriter json(out);
  json.BeginObject();
  json.Key("plans");
  json.BeginArray();
  for (const auto& [policy, result] : plans) {
    json.BeginObject();
    json.Field("local_every", policy.local_every);
    json.Field("shared_every", policy.shared_every);
    json.Field("data_shards", policy.data_shards);
    json.Field("parity_shards", policy.parity_shards);
    json.Field("goodput", result.goodput);
    json.Field("blocked_share", result.blocked_share);
    json.Field("redone_share", result.redone_share);
    json.Field("restart_share", result.restart_share);
    json.Field("restore_share", result.restore_share);
    json.Field("failure_count", result.failure_count);
    json.Field("local_count", result.local_count);
    json.Field("parity_count", result.parity_count);
    json.Field("shared_count", result.shared_count);
    json.Field("nothing_count", result.nothing_count);
    json.Field("host_bytes", result.host_bytes);
    json.Field("peer_bytes_per_step", result.peer_bytes_per_step);
    json.EndObject();
  }
  json.EndArray();
  json.EndObject();
  out << '\n';
}

Result<std::vector<GoodputPlan>> PlansOf(const GoodputArgs& args,
                                         const GoodputModel& model) {
#ifdef HOLDFAST_WITHOUT_TIERS
  (void)args, (void)model;
  return UnimplementedError(
      "goodput: this holdfast was built without its tiers (HOLDFAST_TIERS)");
#else
  if (args.budget_bytes > 0) {
    return PlanGoodput(model, static_cast<double>(args.budget_bytes));
  }
  auto result = SimulateGoodput(model, args.policy);
  if (!result.ok()) return result.status();
  return std::vector<GoodputPlan>{{args.policy, *result}};
#endif
}

int RunGoodput(const GoodputArgs& args, Env& env) {
  GoodputModel model = args.model;
  if (!args.operands.empty()) {
    const auto measured = MeasureLocalTier(args.operands[0]);
    if (!measured.ok()) return Fail(env, measured.status());
    model.local_bytes_per_second = *measured;
    if (!args.quiet && !args.json) {
      env.out << args.operands[0] << ": " << SizeText(*measured)
              << "/s, synced\n\n";
    }
  }
  const auto plans = PlansOf(args, model);
  if (!plans.ok()) {
    return FailUsage(
        env, WithFlagNames(std::string(plans.status().message()), *args.verb));
  }
  if (args.json) {
    PrintPlansJson(*plans, env.out);
  } else {
    PrintPlans(*plans, args, env);
  }
  return kExitFine;
}

}  // namespace

int RunGoodput(const Words& words, Env& env) {
  return RunFilled<GoodputArgs>(words, env, RunGoodput);
}

}  // namespace holdfast::cli
