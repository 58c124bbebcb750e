// The verbs: each is called with the words of the command line, or with the
// arguments that many verbs share, and an Env. Each returns an exit code.
//
// Results go to env.out, everything else to env.err.
// Thread-safety: one verb at a time per Env.
// Ownership: borrows both for the call.
// REQUIRES: words come from ParseWords, and args from Words::Fill, with this
// verb.
#pragma once

#include "cli/args.h"
#include "cli/env.h"
#include "cli/failures.h"
#include "cli/help.h"
#include "holdfast/tools/metrics.h"

namespace holdfast::cli {

// Fills a verb's own arguments, applies those that go for the whole process,
// and runs the verb.
template <typename VerbArgs>
int RunFilled(const Words& words, Env& env,
              int (*run)(const VerbArgs& args, Env& env)) {
  VerbArgs args;
  const Status filled = words.Fill(&args);
  if (!filled.ok()) return Fail(env, filled, UsageHint(*words.verb));
  const Status set = SetRemoteSettings(args.remote);
  if (!set.ok()) return Fail(env, set);
  if (!args.trace.empty()) SetTraceFile(args.trace);
  return run(args, env);
}

int RunLs(const Words& words, Env& env);
int RunTree(const Words& words, Env& env);
int RunInfo(const Args& args, Env& env);
int RunCat(const Words& words, Env& env);
int RunDigest(const Args& args, Env& env);
int RunVerify(const Words& words, Env& env);
int RunSteps(const Args& args, Env& env);
int RunLog(const Words& words, Env& env);
int RunBisect(const Words& words, Env& env);
int RunPrune(const Words& words, Env& env);
int RunDu(const Args& args, Env& env);
int RunPlan(const Words& words, Env& env);
int RunConvert(const Words& words, Env& env);
int RunReshard(const Words& words, Env& env);
int RunDiff(const Words& words, Env& env);
int RunStats(const Words& words, Env& env);
int RunServe(const Words& words, Env& env);
int RunReport(const Words& words, Env& env);
int RunTop(const Words& words, Env& env);
int RunMerge(const Words& words, Env& env);
int RunRescue(const Words& words, Env& env);
int RunCp(const Words& words, Env& env);
int RunView(const Words& words, Env& env);
int RunMaterialize(const Words& words, Env& env);
int RunRecipes(const Args& args, Env& env);
int RunDoctor(const Words& words, Env& env);
int RunWatch(const Words& words, Env& env);
int RunProveCrash(const Words& words, Env& env);
int RunGoodput(const Words& words, Env& env);

}  // namespace holdfast::cli
