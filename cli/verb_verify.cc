// verify: reads and checks everything, and reports what is damaged.

#include <memory>

#include "cli/failures.h"
#include "cli/job_progress.h"
#include "cli/json_out.h"
#include "cli/ranks.h"
#include "cli/units.h"
#include "cli/verbs.h"
#include "cli/verify_report.h"
#include "holdfast/checkpoint.h"
#include "holdfast/steps/steps.h"

namespace holdfast::cli {
namespace {

struct VerifyArgs : Args {
  bool all = false;  // steps of a root

  template <typename Fn>
  void Fields(const Fn& fn) {
    Args::Fields(fn);
    fn("all", all);
  }
};

Result<VerifyReport> VerifyWithProgress(const std::string& path,
                                        const VerifyArgs& args, Env& env,
                                        ProcessGroup* group) {
  RunOptions run = RunOptionsOf(args, env);
  const OpenOptions open = args.open;
  const JobProgress progress(args, env, {.label = "verify", .group = group},
                             run);
  return Verify(path, open, run, group);
}

Result<int> VerifyOne(const VerifyArgs& args, Env& env, ProcessGroup* group) {
  const auto report = VerifyWithProgress(args.operands[0], args, env, group);
  if (!report.ok()) return report.status();
  if (args.json) {
    JsonWriter json(env.out);
    json.BeginObject();
    json.Field("path", args.operands[0]);
    WriteVerifyFields(*report, &json);
    json.EndObject();
    env.out << '\n';
  } else {
    PrintVerifyReport(*report, "", args, env);
  }
  return VerifyExitCode(*report);
}

// Verifies one step. A step that cannot be opened counts as damaged or not
// supported.
Result<VerifyReport> VerifyStep(const std::string& path, const VerifyArgs& args,
                                Env& env, ProcessGroup* group) {
  Result<VerifyReport> report = VerifyWithProgress(path, args, env, group);
  if (report.ok() || !IsDamage(report.status())) return report;
  VerifyReport unreadable;
  (IsNotSupported(report.status()) ? unreadable.not_supported
                                   : unreadable.damages)
      .push_back({"", "", std::nullopt, report.status()});
  return unreadable;
}

// Prints a line for each step when it has been checked, and finally the newest
// intact step.
class RootReport {
 public:
  RootReport(const VerifyArgs& args, Env& env) : args_(args), env_(env) {
    if (!args.json) return;
    json_ = std::make_unique<JsonWriter>(env.out);
    json_->BeginObject();
    json_->Field("path", args.operands[0]);
    json_->Field("root", args.operands[0]);
    json_->Key("steps");
    json_->BeginArray();
  }

  void Add(const ScannedStep& step, const VerifyReport& report) {
    if (json_ == nullptr) {
      PrintVerifyReport(report, PrintableText(step.name) + ": ", args_, env_);
      return;
    }
    json_->BeginObject();
    json_->Field("name", step.name);
    json_->Field("step", step.step);
    WriteVerifyFields(report, json_.get());
    json_->EndObject();
  }

  void End(const ScannedStep* newest) {
    if (json_ != nullptr) {
      json_->EndArray();
      if (newest != nullptr) {
        json_->Field("newest_ok", newest->step);
      } else {
        json_->NullField("newest_ok");
      }
      json_->EndObject();
      env_.out << '\n';
    } else if (newest == nullptr) {
      env_.out << "no step verifies\n";
    } else if (!args_.quiet) {
      env_.out << "newest step that verifies: " << PrintableText(newest->name)
               << '\n';
    }
  }

 private:
  const VerifyArgs& args_;
  Env& env_;
  std::unique_ptr<JsonWriter> json_;
};

Result<int> VerifyRoot(const VerifyArgs& args, Env& env, ProcessGroup* group) {
  const std::string& root = args.operands[0];
  const auto steps = ScanSteps(root);
  if (!steps.ok()) return steps.status();
  if (steps->empty()) return NotFoundError("no committed steps in " + root);
  RootReport out(args, env);
  const ScannedStep* newest = nullptr;
  int code = kExitFine;
  for (auto step = steps->rbegin(); step != steps->rend(); ++step) {
    const auto report = VerifyStep(root + "/" + step->name, args, env, group);
    if (!report.ok()) return report.status();
    out.Add(*step, *report);
    code = WorseExit(code, VerifyExitCode(*report));
    if (newest == nullptr && report->ok()) newest = &*step;
    if (newest != nullptr && !args.all) break;
  }
  out.End(newest);
  return code;
}

int RunVerify(const VerifyArgs& args, Env& env) {
  const bool is_root = !args.open.step && IsRootOfSteps(args.operands[0]);
  if (args.all && !is_root) {
    return FailUsage(env, "verify: --all is for a directory of steps");
  }
  return OnRanks(args, env, [&](ProcessGroup* group, Env& own) -> Result<int> {
    return is_root ? VerifyRoot(args, own, group) : VerifyOne(args, own, group);
  });
}

}  // namespace

int RunVerify(const Words& words, Env& env) {
  return RunFilled<VerifyArgs>(words, env, RunVerify);
}

}  // namespace holdfast::cli
