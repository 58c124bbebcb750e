// The verbs: each is called with the parsed arguments and an Env, and returns
// an exit code.
//
// Results go to env.out, everything else to env.err.
// Thread-safety: one verb at a time per Env.
// Ownership: borrows both for the call.
// REQUIRES: args come from Words::Fill, with this verb.
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

int RunLs(const Args& args, Env& env);
int RunTree(const Args& args, Env& env);
int RunInfo(const Args& args, Env& env);
int RunCat(const Args& args, Env& env);
int RunDigest(const Args& args, Env& env);
int RunVerify(const Args& args, Env& env);
int RunSteps(const Args& args, Env& env);
int RunLog(const Args& args, Env& env);
int RunBisect(const Args& args, Env& env);
int RunPrune(const Args& args, Env& env);
int RunDu(const Args& args, Env& env);
int RunPlan(const Args& args, Env& env);
int RunConvert(const Args& args, Env& env);
int RunReshard(const Args& args, Env& env);
int RunDiff(const Args& args, Env& env);
int RunStats(const Args& args, Env& env);
int RunServe(const Args& args, Env& env);
int RunReport(const Args& args, Env& env);
int RunTop(const Args& args, Env& env);
int RunMerge(const Args& args, Env& env);
int RunRescue(const Args& args, Env& env);
int RunCp(const Args& args, Env& env);
int RunView(const Args& args, Env& env);
int RunMaterialize(const Args& args, Env& env);
int RunRecipes(const Args& args, Env& env);
int RunDoctor(const Args& args, Env& env);
int RunWatch(const Args& args, Env& env);
int RunProveCrash(const Args& args, Env& env);
int RunGoodput(const Args& args, Env& env);

}  // namespace holdfast::cli
