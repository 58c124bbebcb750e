// cp: copies a tree between any two places.

#include "cli/failures.h"
#include "cli/job_progress.h"
#include "cli/json_out.h"
#include "cli/units.h"
#include "cli/verbs.h"
#include "holdfast/tools/remote.h"

namespace holdfast::cli {
namespace {

struct CpArgs : Args {
  CopyOptions copy;

  template <typename Fn>
  void Fields(const Fn& fn) {
    Args::Fields(fn);
    fn("overwrite", copy.overwrite);
    fn("verify", copy.check);
    fn("verify_all", copy.verify);
    fn("restart", copy.restart);
    fn("follow_links", copy.follow_links);
  }
};

Result<CopyResult> CopyWithProgress(const CpArgs& args, Env& env) {
  CopyOptions options = args.copy;
  options.run = RunOptionsOf(args, env);
  const std::string& source = args.operands[0];
  const std::string& target = args.operands[1];
  const JobProgress progress(
      args, env, {.label = "cp", .last_phase = options.verify ? "verify" : ""},
      options.run);
  return Copy(source, target, options);
}

void PrintCopyJson(const CopyResult& result, const CpArgs& args,
                   std::ostream& out) {
  JsonWriter json(out);
  json.BeginObject();
  json.Field("source", args.operands[0]);
  json.Field("target", args.operands[1]);
  json.Field("checkpoint_count", result.checkpoint_count);
  json.Field("file_count", result.file_count);
  json.Field("byte_count", result.byte_count);
  json.Field("kept_file_count", result.kept_file_count);
  json.Field("kept_byte_count", result.kept_byte_count);
  json.Field("server_file_count", result.server_file_count);
  json.Field("server_byte_count", result.server_byte_count);
  json.Field("verified", result.is_verified);
  json.Field("total_seconds", result.total_seconds);
  json.EndObject();
  out << '\n';
}

void PrintCopyText(const CopyResult& result, std::ostream& out) {
  out << "ok: " << Counted(result.file_count, "file", "files");
  if (result.checkpoint_count > 0) {
    out << " of "
        << Counted(result.checkpoint_count, "checkpoint", "checkpoints");
  }
  out << ", " << HumanBytes(result.byte_count) << " in "
      << HumanSeconds(result.total_seconds);
  if (result.kept_file_count > 0) {
    out << ", " << Counted(result.kept_file_count, "file", "files")
        << " were there already";
  }
  if (result.server_file_count > 0) {
    out << ", " << Counted(result.server_file_count, "file", "files")
        << " copied by the server";
  }
  out << (result.is_verified ? " (verified)\n" : "\n");
}

int RunCp(const CpArgs& args, Env& env) {
  const auto result = CopyWithProgress(args, env);
  if (!result.ok()) return Fail(env, result.status());
  if (args.json) {
    PrintCopyJson(*result, args, env.out);
  } else if (!args.quiet) {
    PrintCopyText(*result, env.out);
  }
  return kExitFine;
}

}  // namespace

int RunCp(const Words& words, Env& env) {
  return RunFilled<CpArgs>(words, env, RunCp);
}

}  // namespace holdfast::cli
