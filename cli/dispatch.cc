#include "cli/dispatch.h"

#include <algorithm>

#include "cli/completion.h"
#include "cli/failures.h"
#include "cli/flags.h"
#include "cli/help.h"
#include "cli/parse.h"
#include "cli/verbs.h"
#include "holdfast/tools/metrics.h"
#include "holdfast/version.h"

namespace holdfast::cli {
namespace {

constexpr std::string_view kHelpHint = "holdfast --help lists the verbs";

// Returns the hint for the verb that was typed, whose help lists its options.
std::string HintFor(const std::vector<std::string>& words) {
  for (const std::string& word : words) {
    const Verb* verb = FindVerb(word);
    if (verb != nullptr) return UsageHint(*verb);
  }
  return std::string(kHelpHint);
}

int RunHelp(const Words& words, Env& env) {
  if (words.operands.empty()) {
    env.out << GeneralHelp();
    return kExitFine;
  }
  const std::string& name = words.operands[0];
  const Verb* verb = FindVerb(name);
  const std::string text = verb != nullptr ? VerbHelp(*verb) : GroupHelp(name);
  if (text.empty()) {
    return FailUsage(env, "no help for '" + name + "'", kHelpHint);
  }
  env.out << text;
  return kExitFine;
}

int RunCompletion(const Words& words, Env& env) {
  const auto script = CompletionScript(words.operands[0]);
  if (!script.ok()) return Fail(env, script.status());
  env.out << *script;
  return kExitFine;
}

int RunMan(const Words&, Env& env) {
  env.out << ManPage();
  return kExitFine;
}

template <int (*run)(const Args& args, Env& env)>
int OnArgs(const Words& words, Env& env) {
  return RunFilled<Args>(words, env, run);
}

struct VerbRun {
  std::string_view verb;
  int (*run)(const Words& words, Env& env);
};

constexpr VerbRun kRuns[] = {
    {"ls", RunLs},
    {"tree", RunTree},
    {"info", OnArgs<RunInfo>},
    {"cat", RunCat},
    {"digest", OnArgs<RunDigest>},
    {"verify", RunVerify},
    {"steps", OnArgs<RunSteps>},
    {"log", RunLog},
    {"bisect", RunBisect},
    {"prune", RunPrune},
    {"du", OnArgs<RunDu>},
    {"plan", RunPlan},
    {"convert", RunConvert},
    {"reshard", RunReshard},
    {"diff", RunDiff},
    {"stats", RunStats},
    {"report", RunReport},
    {"serve", RunServe},
    {"top", RunTop},
    {"merge", RunMerge},
    {"rescue", RunRescue},
    {"cp", RunCp},
    {"view", RunView},
    {"materialize", RunMaterialize},
    {"recipes", OnArgs<RunRecipes>},
    {"doctor", RunDoctor},
    {"watch", RunWatch},
    {"prove-crash", RunProveCrash},
    {"goodput", RunGoodput},
    {"help", RunHelp},
    {"completion", RunCompletion},
    {"man", RunMan},
};

int RunVerb(const Words& words, Env& env) {
  for (const auto& [verb, run] : kRuns) {
    if (words.verb->name == verb) return run(words, env);
  }
  return Fail(env, InternalError("a verb that nothing runs"));
}

// Returns true if an operand is a URL.
bool NamesStore(const Words& words) {
  return std::ranges::any_of(words.operands, [](const std::string& operand) {
    return operand.find("://") != std::string::npos;
  });
}

int RunParsed(const Words& words, Env& env) {
  if (words.Has("version")) {
    env.out << "holdfast " << Version();
    if (!Commit().empty()) env.out << " (commit " << Commit() << ")";
    env.out << '\n';
    return kExitFine;
  }
  if (words.Has("help")) {
    env.out << (words.verb != nullptr ? VerbHelp(*words.verb, NamesStore(words))
                                      : GeneralHelp());
    return kExitFine;
  }
  const int code = RunVerb(words, env);
  FlushTrace();
  return code;
}

}  // namespace

int RunCommand(const std::vector<std::string>& words, Env& env) {
  if (words.empty()) {
    env.err << Overview();
    return kExitUsage;
  }
  const auto parsed = ParseWords(words);
  if (!parsed.ok()) {
    env.json_errors =
        std::find(words.begin(), words.end(), "--json") != words.end();
    return Fail(env, parsed.status(), HintFor(words));
  }
  env.json_errors = parsed->Has("json");
  const int code = RunParsed(*parsed, env);
  env.out.flush();
  if (env.cancelled()) return kExitInterrupted;
  if (!env.out) {
    return Fail(env, UnavailableError("cannot write to standard output"));
  }
  return code;
}

}  // namespace holdfast::cli
