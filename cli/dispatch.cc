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
    if (verb == nullptr) continue;
    return "holdfast " + std::string(verb->name) + " " +
           std::string(verb->operands) + "; holdfast help " +
           std::string(verb->name) + " lists its options";
  }
  return std::string(kHelpHint);
}

int RunHelp(const Args& args, Env& env) {
  if (args.operands.empty()) {
    env.out << GeneralHelp();
    return kExitFine;
  }
  const Verb* verb = FindVerb(args.operands[0]);
  if (verb == nullptr) {
    return FailUsage(env, "no help for '" + args.operands[0] + "'", kHelpHint);
  }
  env.out << VerbHelp(*verb);
  return kExitFine;
}

int RunCompletion(const Args& args, Env& env) {
  const auto script = CompletionScript(args.operands[0]);
  if (!script.ok()) return Fail(env, script.status());
  env.out << *script;
  return kExitFine;
}

int RunMan(Env& env) {
  env.out << ManPage();
  return kExitFine;
}

int RunVerb(const Args& args, Env& env) {
  switch (*args.verb) {
    case VerbId::kLs:
      return RunLs(args, env);
    case VerbId::kTree:
      return RunTree(args, env);
    case VerbId::kInfo:
      return RunInfo(args, env);
    case VerbId::kCat:
      return RunCat(args, env);
    case VerbId::kDigest:
      return RunDigest(args, env);
    case VerbId::kVerify:
      return RunVerify(args, env);
    case VerbId::kSteps:
      return RunSteps(args, env);
    case VerbId::kLog:
      return RunLog(args, env);
    case VerbId::kBisect:
      return RunBisect(args, env);
    case VerbId::kPrune:
      return RunPrune(args, env);
    case VerbId::kDu:
      return RunDu(args, env);
    case VerbId::kPlan:
      return RunPlan(args, env);
    case VerbId::kConvert:
      return RunConvert(args, env);
    case VerbId::kReshard:
      return RunReshard(args, env);
    case VerbId::kDiff:
      return RunDiff(args, env);
    case VerbId::kStats:
      return RunStats(args, env);
    case VerbId::kServe:
      return RunServe(args, env);
    case VerbId::kReport:
      return RunReport(args, env);
    case VerbId::kTop:
      return RunTop(args, env);
    case VerbId::kMerge:
      return RunMerge(args, env);
    case VerbId::kRescue:
      return RunRescue(args, env);
    case VerbId::kCp:
      return RunCp(args, env);
    case VerbId::kView:
      return RunView(args, env);
    case VerbId::kMaterialize:
      return RunMaterialize(args, env);
    case VerbId::kRecipes:
      return RunRecipes(args, env);
    case VerbId::kDoctor:
      return RunDoctor(args, env);
    case VerbId::kWatch:
      return RunWatch(args, env);
    case VerbId::kProveCrash:
      return RunProveCrash(args, env);
    case VerbId::kGoodput:
      return RunGoodput(args, env);
    case VerbId::kHelp:
      return RunHelp(args, env);
    case VerbId::kCompletion:
      return RunCompletion(args, env);
    case VerbId::kMan:
      return RunMan(env);
  }
  return kExitUsage;
}

int RunParsed(const Args& args, Env& env) {
  if (args.version) {
    env.out << "holdfast " << Version();
    if (!Commit().empty()) env.out << " (commit " << Commit() << ")";
    env.out << '\n';
    return kExitFine;
  }
  if (args.help) {
    env.out << (args.verb ? VerbHelp(VerbOf(*args.verb)) : GeneralHelp());
    return kExitFine;
  }
  const Status set = SetRemoteSettings(args.remote);
  if (!set.ok()) return Fail(env, set);
  if (!args.trace.empty()) SetTraceFile(args.trace);
  const int code = RunVerb(args, env);
  FlushTrace();
  return code;
}

}  // namespace

int RunCommand(const std::vector<std::string>& words, Env& env) {
  const auto args = ParseArgs(words);
  if (!args.ok()) {
    env.json_errors =
        std::find(words.begin(), words.end(), "--json") != words.end();
    return Fail(env, args.status(), HintFor(words));
  }
  env.json_errors = args->json;
  const int code = RunParsed(*args, env);
  env.out.flush();
  if (env.cancelled()) return kExitInterrupted;
  if (!env.out) {
    return Fail(env, UnavailableError("cannot write to standard output"));
  }
  return code;
}

}  // namespace holdfast::cli
