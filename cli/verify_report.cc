#include "cli/verify_report.h"

#include "cli/failures.h"
#include "cli/units.h"

namespace holdfast::cli {
namespace {

// Returns "w: d/1a2b at 4096: crc32c differs", for example.
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

void PrintFindings(std::string_view label, const std::vector<Damage>& findings,
                   std::string_view prefix, bool color, Env& env) {
  for (const Damage& finding : findings) {
    env.out << (color ? "\x1b[31m" : "") << label << ": "
            << (color ? "\x1b[0m" : "") << prefix << DamageText(finding)
            << '\n';
  }
}

// Returns "1 damage, 2 leaves not supported", for example.
std::string CountsText(const VerifyReport& report) {
  std::string text;
  if (!report.damages.empty()) {
    text = Counted(report.damages.size(), "damage", "damages");
  }
  if (!report.not_supported.empty()) {
    if (!text.empty()) text += ", ";
    text += std::to_string(report.not_supported.size()) + " not supported";
  }
  return text;
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

void WriteFindings(std::string_view key, const std::vector<Damage>& findings,
                   JsonWriter* json) {
  json->Key(key);
  json->BeginArray();
  for (const Damage& finding : findings) WriteDamage(finding, json);
  json->EndArray();
}

}  // namespace

void PrintVerifyReport(const VerifyReport& report, std::string_view prefix,
                       const Args& args, Env& env) {
  const bool color = UseColor(args, env);
  PrintFindings("damaged", report.damages, prefix, color, env);
  PrintFindings("not supported", report.not_supported, prefix, color, env);
  if (args.quiet) return;
  for (const std::string& note : report.notes) {
    env.out << "note: " << prefix << PrintableText(note) << '\n';
  }
  if (report.ok()) {
    env.out << "ok: " << prefix << ExtentText(report) << '\n';
  } else {
    env.out << prefix << CountsText(report) << " in " << ExtentText(report)
            << '\n';
  }
}

int VerifyExitCode(const VerifyReport& report) {
  if (!report.damages.empty()) return kExitDamaged;
  return report.ok() ? kExitFine : kExitFailure;
}

void WriteVerifyFields(const VerifyReport& report, JsonWriter* json) {
  json->Field("ok", report.ok());
  json->Field("leaf_count", report.leaf_count);
  json->Field("chunk_count", report.chunk_count);
  json->Field("checksummed_chunk_count", report.checksummed_chunk_count);
  json->Field("decoded_bytes", report.stats.decoded_bytes);
  json->Field("stored_bytes", report.stats.stored_bytes);
  json->Field("total_seconds", report.stats.total_seconds);
  WriteFindings("damages", report.damages, json);
  WriteFindings("not_supported", report.not_supported, json);
  json->StringsField("notes", report.notes);
}

}  // namespace holdfast::cli
