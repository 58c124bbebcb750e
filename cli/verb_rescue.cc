// rescue: makes a clean step from what is left of a checkpoint.

#include <algorithm>
#include <string>

#include "cli/failures.h"
#include "cli/job_progress.h"
#include "cli/json_out.h"
#include "cli/units.h"
#include "cli/verbs.h"
#include "holdfast/tools/rescue.h"

namespace holdfast::cli {
namespace {

struct RescueArgs : Args {
  RescueOptions rescue;

  template <typename Fn>
  void Fields(const Fn& fn) {
    Args::Fields(fn);
    fn("fill", rescue.fill);
    fn("compression", rescue.compression);
  }
};

Result<RescueResult> RescueWithProgress(const RescueArgs& args, Env& env) {
  RescueOptions options = args.rescue;
  options.run = RunOptionsOf(args, env);
  const JobProgress progress(
      args, env, {.label = "rescue", .last_phase = "check"}, options.run);
  return Rescue(args.operands[0], args.operands[1], options);
}

// Returns "w: d/1a2b at 4096: crc32c differs", for example.
std::string LossText(const LostLeaf& lost) {
  std::string text = lost.leaf;
  if (!lost.file.empty()) {
    text += (text.empty() ? "" : ": ") + lost.file;
    if (lost.offset) text += " at " + std::to_string(*lost.offset);
  }
  return PrintableText(text + (text.empty() ? "" : ": ") + lost.reason);
}

void PrintUnchecked(const RescueResult& result, Env& env) {
  constexpr size_t kNamesShownMax = 8;
  if (!result.checksums_are_known) {
    env.out << "a list of checksums is damaged or gone\n";
  }
  const size_t count = result.unchecked.size();
  if (count == 0) return;
  env.out << "unchecked: " << Counted(count, "leaf has", "leaves have")
          << " bytes that no checksum covers:";
  for (size_t i = 0; i < std::min(count, kNamesShownMax); ++i) {
    env.out << ' ' << PrintableText(result.unchecked[i]);
  }
  env.out << (count > kNamesShownMax ? " ...\n" : "\n");
}

void PrintLosses(const RescueResult& result, const RescueArgs& args, Env& env) {
  const bool color = UseColor(args, env);
  for (const LostLeaf& lost : result.lost) {
    env.out << (color ? "\x1b[31m" : "")
            << (lost.is_filled ? "filled: " : "lost: ")
            << (color ? "\x1b[0m" : "") << LossText(lost) << '\n';
  }
  PrintUnchecked(result, env);
  if (args.quiet) return;
  for (const std::string& note : result.notes) {
    env.out << "note: " << PrintableText(note) << '\n';
  }
  const uint64_t lost_count = result.lost.size() - result.filled_count;
  env.out << (result.is_whole() ? "ok: " : "")
          << Counted(result.leaf_count - result.filled_count, "leaf", "leaves")
          << " recovered";
  if (result.filled_count > 0) {
    env.out << ", " << result.filled_count << " filled from "
            << PrintableText(args.rescue.fill);
  }
  env.out << ", " << lost_count << " lost: " << HumanBytes(result.decoded_bytes)
          << " in " << HumanSeconds(result.total_seconds) << '\n';
  if (!result.names_are_known) {
    env.out << "names are not all known: there may have been leaves of which "
               "nothing is left\n";
  }
}

void WriteLoss(const LostLeaf& lost, JsonWriter& json) {
  json.BeginObject();
  json.Field("leaf", lost.leaf);
  json.Field("file", lost.file);
  if (lost.offset) {
    json.Field("offset", *lost.offset);
  } else {
    json.NullField("offset");
  }
  json.Field("reason", lost.reason);
  json.Field("filled", lost.is_filled);
  json.EndObject();
}

void PrintRescueJson(const RescueResult& result, const RescueArgs& args,
                     std::ostream& out) {
  JsonWriter json(out);
  json.BeginObject();
  json.Field("source", args.operands[0]);
  json.Field("target", args.operands[1]);
  json.Field("fill", args.rescue.fill);
  json.Field("ok", result.is_whole());
  json.Field("format", result.format);
  json.Field("leaf_count", result.leaf_count);
  json.Field("filled_count", result.filled_count);
  json.Field("decoded_bytes", result.decoded_bytes);
  json.Field("names_are_known", result.names_are_known);
  json.Field("checksums_are_known", result.checksums_are_known);
  json.StringsField("unchecked", result.unchecked);
  json.Key("lost");
  json.BeginArray();
  for (const LostLeaf& lost : result.lost) WriteLoss(lost, json);
  json.EndArray();
  json.StringsField("notes", result.notes);
  json.Field("total_seconds", result.total_seconds);
  json.EndObject();
  out << '\n';
}

int RunRescue(const RescueArgs& args, Env& env) {
  const auto result = RescueWithProgress(args, env);
  if (!result.ok()) return Fail(env, result.status());
  if (args.json) {
    PrintRescueJson(*result, args, env.out);
  } else {
    PrintLosses(*result, args, env);
  }
  return result->is_whole() ? kExitFine : kExitDamaged;
}

}  // namespace

int RunRescue(const Words& words, Env& env) {
  return RunFilled<RescueArgs>(words, env, RunRescue);
}

}  // namespace holdfast::cli
