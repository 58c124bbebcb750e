// cp: copies a tree between any two places.

#include "cli/failures.h"
#include "cli/job_progress.h"
#include "cli/json_out.h"
#include "cli/units.h"
#include "cli/verbs.h"
#include "holdfast/tools/remote.h"

namespace holdfast::cli {
namespace {

Result<CopyResult> CopyWithProgress(const Args& args, Env& env) {
  CopyOptions options;
  options.run = RunOptionsOf(args, env);
  options.overwrite = args.overwrite;
  options.restart = args.restart;
  options.check = args.verify;
  options.verify = args.verify_copy;
  options.follow_links = args.follow_links;
  const std::string& source = args.operands[0];
  const std::string& target = args.operands[1];
  const JobProgress progress(
      args, env,
      {.label = "cp", .last_phase = args.verify_copy ? "verify" : ""},
      options.run);
  return Copy(source, target, options);
}

void PrintCopyJson(const CopyResult& result, const Args& args,
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

}  // namespace

int RunCp(const Args& args, Env& env) {
  const auto result = CopyWithProgress(args, env);
  if (!result.ok()) return Fail(env, result.status());
  if (args.json) {
    PrintCopyJson(*result, args, env.out);
  } else if (!args.quiet) {
    PrintCopyText(*result, env.out);
  }
  return kExitFine;
}

}  // namespace holdfast::cli
