// bisect: the first bad step of a root.

#include <sys/wait.h>

#include <cstdlib>

#include "cli/json_out.h"
#include "cli/report.h"
#include "cli/units.h"
#include "cli/verbs.h"
#include "holdfast/tools/history.h"

namespace holdfast::cli {
namespace {

// As `git bisect run` takes what a command ends with.
constexpr int kSkipCode = 125;
constexpr int kBadCodeMax = 127;

// "'it'\''s'": one word of the shell.
std::string ShellWord(const std::string& text) {
  std::string word = "'";
  for (const char c : text) {
    if (c == '\'') {
      word += "'\\''";
    } else {
      word += c;
    }
  }
  return word + "'";
}

std::string CommandFor(const std::string& command, const std::string& path) {
  // What it prints is not the result of this verb.
  std::string text = "exec 1>&2\n";
  size_t done = 0;
  for (size_t at = command.find("{}"); at != command.npos;
       at = command.find("{}", done)) {
    text += command.substr(done, at - done) + ShellWord(path);
    done = at + 2;
  }
  return text + command.substr(done);
}

Result<StepAnswer> AskCommand(const std::string& command,
                              const std::string& path) {
  const int status = std::system(CommandFor(command, path).c_str());
  if (status == -1) return UnavailableError("--run: no shell can be started");
  if (!WIFEXITED(status)) {
    return CancelledError("--run: the command was ended by signal " +
                          std::to_string(WTERMSIG(status)));
  }
  const int code = WEXITSTATUS(status);
  if (code > kBadCodeMax) {
    return CancelledError("--run: the command ended with " +
                          std::to_string(code) +
                          ", which stops the search (want 0 to 127)");
  }
  StepAnswer answer;
  answer.why = "the command ended with " + std::to_string(code);
  if (code == 126 || code == 127) {
    answer.why += ", as the shell does when it cannot run it";
  }
  answer.verdict = code == 0           ? StepVerdict::kGood
                   : code == kSkipCode ? StepVerdict::kSkip
                                       : StepVerdict::kBad;
  return answer;
}

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

void PrintFoundText(const BisectResult& found, const Args& args, Env& env) {
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

void PrintFoundJson(const BisectResult& found, const Args& args,
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

}  // namespace

int RunBisect(const Args& args, Env& env) {
  if (args.bad_if.empty() == args.run_command.empty()) {
    return FailUsage(env, "bisect wants --bad-if or --run, and one of them");
  }
  BisectOptions options;
  options.run = RunOptionsOf(args, env);
  options.good = args.good;
  options.bad = args.bad;
  if (!args.json && !args.quiet) {
    options.on_probe = [&](const BisectProbe& p) { PrintProbe(p, env); };
  }
  const std::string& root = args.operands[0];
  const auto found = args.run_command.empty()
                         ? Bisect(root, args.bad_if, options)
                         : BisectBy(
                               root,
                               [&](const std::string& path) {
                                 return AskCommand(args.run_command, path);
                               },
                               options);
  if (!found.ok()) return Fail(env, found.status());
  if (args.json) {
    PrintFoundJson(*found, args, env.out);
  } else {
    PrintFoundText(*found, args, env);
  }
  return found->first_bad ? kExitFine : kExitDamaged;
}

}  // namespace holdfast::cli
