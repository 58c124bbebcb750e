// verify: reads and checks everything, and says what is damaged.

#include "cli/json_out.h"
#include "cli/progress_bar.h"
#include "cli/ranks.h"
#include "cli/report.h"
#include "cli/units.h"
#include "cli/verbs.h"
#include "holdfast/checkpoint.h"

namespace holdfast::cli {
namespace {

Result<VerifyReport> VerifyWithProgress(const Args& args, Env& env,
                                        ProcessGroup* group) {
  RunOptions run = RunOptionsOf(args, env);
  const OpenOptions open = OpenOptionsOf(args);
  const bool is_silent = group != nullptr && group->rank() > 0;
  if (is_silent || !UseProgress(args, env)) {
    return Verify(args.operands[0], open, run, group);
  }
  ProgressBar bar(env.err, env.now_seconds,
                  {.label = "verify", .columns = env.columns});
  run.progress = [&](const Progress& progress) {
    bar.Update(progress.done_bytes, progress.total_bytes);
  };
  return Verify(args.operands[0], open, run, group);
}

// "w: d/1a2b at 4096: crc32c differs".
std::string DamageText(const Damage& damage) {
  std::string text;
  if (!damage.leaf.empty()) text += damage.leaf + ": ";
  text += damage.file;
  if (damage.offset) text += " at " + std::to_string(*damage.offset);
  if (!text.empty() && !text.ends_with(": ")) text += ": ";
  return PrintableText(text + std::string(damage.status.message()));
}

std::string ExtentText(const VerifyReport& report) {
  return Counted(report.leaf_count, "leaf", "leaves") + ", " +
         Counted(report.chunk_count, "chunk", "chunks") + ", " +
         HumanBytes(report.stats.decoded_bytes) + " in " +
         HumanSeconds(report.stats.total_seconds) + " (" +
         std::to_string(report.checksummed_chunk_count) + " of " +
         Counted(report.chunk_count, "chunk", "chunks") + " checksummed)";
}

void PrintVerifyText(const VerifyReport& report, const Args& args, Env& env) {
  const bool color = UseColor(args, env);
  for (const Damage& damage : report.damages) {
    env.out << (color ? "\x1b[31m" : "")
            << "damaged: " << (color ? "\x1b[0m" : "") << DamageText(damage)
            << '\n';
  }
  if (args.quiet) return;
  for (const std::string& note : report.notes) {
    env.out << "note: " << PrintableText(note) << '\n';
  }
  if (report.damages.empty()) {
    env.out << "ok: " << ExtentText(report) << '\n';
  } else {
    env.out << Counted(report.damages.size(), "damage", "damages") << " in "
            << ExtentText(report) << '\n';
  }
}

void WriteDamage(const Damage& damage, JsonWriter* json) {
  json->BeginObject();
  json->Field("leaf", damage.leaf);
  json->Field("file", damage.file);
  if (damage.offset) {
    json->Field("offset", *damage.offset);
  } else {
    json->NullField("offset");
  }
  json->Field("code", StatusCodeName(damage.status.code()));
  json->Field("message", damage.status.message());
  json->EndObject();
}

void PrintVerifyJson(const VerifyReport& report, std::ostream& out) {
  JsonWriter json(out);
  json.BeginObject();
  json.Field("ok", report.damages.empty());
  json.Field("leaf_count", report.leaf_count);
  json.Field("chunk_count", report.chunk_count);
  json.Field("checksummed_chunk_count", report.checksummed_chunk_count);
  json.Field("decoded_bytes", report.stats.decoded_bytes);
  json.Field("stored_bytes", report.stats.stored_bytes);
  json.Field("total_seconds", report.stats.total_seconds);
  json.Key("damages");
  json.BeginArray();
  for (const Damage& damage : report.damages) WriteDamage(damage, &json);
  json.EndArray();
  json.StringsField("notes", report.notes);
  json.EndObject();
  out << '\n';
}

}  // namespace

int RunVerify(const Args& args, Env& env) {
  return OnRanks(args, env, [&](ProcessGroup* group, Env& own) -> Result<int> {
    const auto report = VerifyWithProgress(args, own, group);
    if (!report.ok()) return report.status();
    if (args.json) {
      PrintVerifyJson(*report, own.out);
    } else {
      PrintVerifyText(*report, args, own);
    }
    return report->damages.empty() ? kExitFine : kExitDamaged;
  });
}

}  // namespace holdfast::cli
