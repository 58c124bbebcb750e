// bisect: finds the first bad step of a root.

#include "cli/failures.h"
#include "cli/json_out.h"
#include "cli/units.h"
#include "cli/verbs.h"
#include "holdfast/tools/history.h"

namespace holdfast::cli {
namespace {

struct BisectArgs : Args {
  BisectOptions bisect;
  std::string bad_if;
  std::string run_command;

  template <typename Fn>
  void Fields(const Fn& fn) {
    Args::Fields(fn);
    fn("good", bisect.good);
    fn("bad", bisect.bad);
    fn("bad_if", bad_if);
    fn("run_command", run_command);
  }
};

std::string CountReadText(uint64_t leaf_count, uint64_t bytes) {
  return Counted(leaf_count, "tensor", "tensors") + " (" + HumanBytes(bytes) +
         ")";
}

void PrintProbe(const BisectProbe& probe, Env& env) {
  const StepAnswer& answer = probe.answer;
  env.out << "step " << probe.step.step << ": "
          << (answer.verdict == StepVerdict::kSkip
                  ? "skipped"
                  : StepVerdictName(answer.verdict));
  if (!answer.why.empty()) env.out << ": " << PrintableText(answer.why);
  env.out << '\n' << std::flush;
}

void PrintFoundText(const BisectResult& found, const BisectArgs& args,
                    Env& env) {
  if (found.first_bad) {
    env.out << "first bad step: " << found.first_bad->step << " ("
            << PrintableText(found.first_bad->path) << ")\n";
  } else {
    env.out << "the first bad step is one of";
    for (const BisectStep& step : found.candidates) {
      env.out << ' ' << step.step;
    }
    env.out << ": all but the last were skipped\n";
  }
  if (args.quiet) return;
  env.out << "last good step: " << found.last_good.step << " ("
          << PrintableText(found.last_good.path) << ")\n"
          << "looked at " << found.probes.size() << " of "
          << Counted(found.step_count, "step", "steps");
  if (!args.bad_if.empty()) {
    env.out << ", read " << CountReadText(found.leaf_count, found.bytes);
  }
  env.out << '\n';
}

void WriteBisectStep(const BisectStep& step, JsonWriter* json) {
  json->Field("step", step.step);
  json->Field("name", step.name);
  json->Field("path", step.path);
}

void WriteStepObject(const BisectStep& step, JsonWriter* json) {
  json->BeginObject();
  WriteBisectStep(step, json);
  json->EndObject();
}

void PrintFoundJson(const BisectResult& found, const BisectArgs& args,
                    std::ostream& out) {
  JsonWriter json(out);
  json.BeginObject();
  json.Field("path", args.operands[0]);
  json.Key("first_bad");
  if (found.first_bad) {
    WriteStepObject(*found.first_bad, &json);
  } else {
    json.Null();
  }
  json.Key("last_good");
  WriteStepObject(found.last_good, &json);
  json.Key("candidates");
  json.BeginArray();
  for (const BisectStep& step : found.candidates) WriteStepObject(step, &json);
  json.EndArray();
  json.Key("probes");
  json.BeginArray();
  for (const BisectProbe& probe : found.probes) {
    json.BeginObject();
    WriteBisectStep(probe.step, &json);
    json.Field("verdict", StepVerdictName(probe.answer.verdict));
    json.Field("why", probe.answer.why);
    json.Field("leaf_count", probe.answer.leaf_count);
    json.Field("bytes", probe.answer.bytes);
    json.EndObject();
  }
  json.EndArray();
  json.Field("step_count", found.step_count);
  json.Field("leaf_count", found.leaf_count);
  json.Field("bytes", found.bytes);
  json.EndObject();
  out << '\n';
}

int RunBisect(const BisectArgs& args, Env& env) {
  if (args.bad_if.empty() == args.run_command.empty()) {
    return FailUsage(env, "bisect wants --bad-if or --run, and one of them");
  }
  BisectOptions options = args.bisect;
  options.run = RunOptionsOf(args, env);
  if (!args.json && !args.quiet) {
    options.on_probe = [&](const BisectProbe& p) { PrintProbe(p, env); };
  }
  const std::string& root = args.operands[0];
  const auto found = args.run_command.empty()
                         ? Bisect(root, args.bad_if, options)
                         : BisectByCommand(root, args.run_command, options);
  if (!found.ok()) return Fail(env, found.status());
  if (args.json) {
    PrintFoundJson(*found, args, env.out);
  } else {
    PrintFoundText(*found, args, env);
  }
  return found->first_bad ? kExitFine : kExitDamaged;
}

}  // namespace

int RunBisect(const Words& words, Env& env) {
  return RunFilled<BisectArgs>(words, env, RunBisect);
}

}  // namespace holdfast::cli
