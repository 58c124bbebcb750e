// report: writes a checkpoint's report as one HTML file.

#include "cli/failures.h"
#include "cli/flags.h"
#include "cli/job_progress.h"
#include "cli/json_out.h"
#include "cli/units.h"
#include "cli/verbs.h"
#include "holdfast/tools/report.h"

namespace holdfast::cli {
namespace {

struct ReportArgs : Args {
  ReportOptions report;
  std::string output = "report.html";  // "-": standard output

  template <typename Fn>
  void Fields(const Fn& fn) {
    Args::Fields(fn);
    fn("statistics", report.statistics);
    fn("verify_all", report.verify);
    fn("against", report.against);
    fn("moved", report.moved);
    fn("cache", report.cache);
    fn("output", output);
  }
};

ReportOptions ReportOptionsOf(const ReportArgs& args, const Env& env) {
  ReportOptions options = args.report;
  options.run = RunOptionsOf(args, env);
  options.open = args.open;
  return options;
}

void PrintReportJson(const ReportResult& result, const ReportArgs& args,
                     std::ostream& out) {
  JsonWriter json(out);
  json.BeginObject();
  json.Field("path", args.operands[0]);
  json.Field("output", args.output);
  json.Field("leaf_count", result.leaf_count);
  json.Field("unreadable_count", result.unreadable_count);
  json.Field("not_supported_count", result.not_supported_count);
  json.Field("damage_count", result.damage_count);
  json.Field("different_count", result.different_count);
  json.Field("byte_count", result.html.size());
  json.Field("total_seconds", result.total_seconds);
  json.EndObject();
  out << '\n';
}

void PrintReportText(const ReportResult& result, const ReportArgs& args,
                     std::ostream& out) {
  if (args.quiet) return;
  out << "ok: " << Counted(result.leaf_count, "leaf", "leaves") << " in "
      << args.output << " (" << HumanBytes(result.html.size()) << ") in "
      << HumanSeconds(result.total_seconds);
  if (result.unreadable_count > 0) {
    out << ", " << result.unreadable_count << " not readable";
  }
  if (result.not_supported_count > 0) {
    out << ", " << result.not_supported_count << " not supported";
  }
  if (result.damage_count > 0) out << ", " << result.damage_count << " damaged";
  if (args.report.against) {
    out << ", " << result.different_count << " different";
  }
  out << '\n';
}

int RunReport(const ReportArgs& args, Env& env) {
  ReportOptions options = ReportOptionsOf(args, env);
  Result<ReportResult> result = InternalError("report: not run");
  {
    const JobProgress progress(args, env, {.label = "report"}, options.run);
    result = MakeReport(args.operands[0], options);
  }
  if (!result.ok()) return Fail(env, result.status());
  if (!result->cache_warning.empty()) {
    env.err << "holdfast: --cache: " << PrintableText(result->cache_warning)
            << '\n';
  }
  if (args.output == "-") {
    env.out << result->html;
  } else {
    const Status written = WriteTextFile("output", args.output, result->html);
    if (!written.ok()) return Fail(env, written);
    if (args.json) {
      PrintReportJson(*result, args, env.out);
    } else {
      PrintReportText(*result, args, env.out);
    }
  }
  const bool is_damaged =
      result->damage_count > 0 || result->unreadable_count > 0;
  if (is_damaged) return kExitDamaged;
  return result->not_supported_count > 0 ? kExitFailure : kExitFine;
}

}  // namespace

int RunReport(const Words& words, Env& env) {
  return RunFilled<ReportArgs>(words, env, RunReport);
}

}  // namespace holdfast::cli
