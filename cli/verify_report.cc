#include "cli/verify_report.h"

#include "cli/units.h"

namespace holdfast::cli {
namespace {

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

}  // namespace

void PrintVerifyReport(const VerifyReport& report, std::string_view prefix,
                       const Args& args, Env& env) {
  const bool color = UseColor(args, env);
  for (const Damage& damage : report.damages) {
    env.out << (color ? "\x1b[31m" : "")
            << "damaged: " << (color ? "\x1b[0m" : "") << prefix
            << DamageText(damage) << '\n';
  }
  if (args.quiet) return;
  for (const std::string& note : report.notes) {
    env.out << "note: " << prefix << PrintableText(note) << '\n';
  }
  if (report.damages.empty()) {
    env.out << "ok: " << prefix << ExtentText(report) << '\n';
  } else {
    env.out << prefix << Counted(report.damages.size(), "damage", "damages")
            << " in " << ExtentText(report) << '\n';
  }
}

void WriteVerifyFields(const VerifyReport& report, JsonWriter* json) {
  json->Field("ok", report.damages.empty());
  json->Field("leaf_count", report.leaf_count);
  json->Field("chunk_count", report.chunk_count);
  json->Field("checksummed_chunk_count", report.checksummed_chunk_count);
  json->Field("decoded_bytes", report.stats.decoded_bytes);
  json->Field("stored_bytes", report.stats.stored_bytes);
  json->Field("total_seconds", report.stats.total_seconds);
  json->Key("damages");
  json->BeginArray();
  for (const Damage& damage : report.damages) WriteDamage(damage, json);
  json->EndArray();
  json->StringsField("notes", report.notes);
}

}  // namespace holdfast::cli
