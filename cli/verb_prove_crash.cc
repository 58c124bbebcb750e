// prove-crash: shows what a power loss could cost a program that saves.

#include <utility>
#include <vector>

#include "cli/failures.h"
#include "cli/json_out.h"
#include "cli/text_table.h"
#include "cli/units.h"
#include "cli/verbs.h"
#include "holdfast/tools/prove.h"

namespace holdfast::cli {
namespace {

struct ProveArgs : Args {
  ProveOptions prove;
  std::vector<std::string> libraries;
  std::string python = "python3";

  template <typename Fn>
  void Fields(const Fn& fn) {
    Args::Fields(fn);
    fn("root", prove.root);
    fn("judge", prove.check);
    fn("without_sync", prove.without_sync);
    fn("states", prove.state_count_max);
    fn("seed", prove.seed);
    fn("library", libraries);
    fn("python", python);
  }
};

// The proof for one program, named after a library or the command.
struct Proved {
  std::string name;
  CrashProof proof;
};

std::string MissingText(const CrashRisk& risk) {
  if (risk.missing.empty()) return "none helps: wrong with nothing lost";
  std::string text;
  for (const MissingSync& sync : risk.missing) {
    if (!text.empty()) text += " and ";
    text += (sync.is_directory ? "directory " : "file ") + sync.path;
    text += sync.comes_later ? " (comes too late)" : " (never comes)";
  }
  return text;
}

std::string ProblemText(const CrashRisk& risk) {
  switch (risk.problem) {
    case CrashProblem::kLost:
      return "saved, and gone";
    case CrashProblem::kDamaged:
      return "listed, and unreadable";
    case CrashProblem::kWrong:
      return "loads wrong values";
    case CrashProblem::kCheck:
      return "--check says no";
  }
  return "";
}

void PrintCosts(const std::vector<Proved>& all, const ProveArgs& args,
                Env& env) {
  TextTable table({{"PROGRAM", Align::kLeft, Fit::kShorten},
                   {"A POWER LOSS LEAVES IT"},
                   {"THE SYNC THAT IS MISSING", Align::kLeft, Fit::kShorten},
                   {"STATES", Align::kRight}});
  for (const auto& [name, proof] : all) {
    for (const CrashRisk& risk : proof.risks) {
      table.AddRow({PrintableText(name), ProblemText(risk),
                    PrintableText(MissingText(risk)),
                    std::to_string(risk.state_count)});
    }
    if (proof.risks.empty()) {
      table.AddRow({PrintableText(name), "as it was saved", "none", "0"});
    }
  }
  table.Print(TableStyleOf(args, env), env.out);
  if (args.quiet) return;
  for (const auto& [name, proof] : all) {
    env.out << '\n'
            << PrintableText(name) << ": "
            << Counted(proof.change_count, "change", "changes") << ", "
            << proof.sync_count << " of them syncs";
    if (proof.dropped_sync_count > 0) {
      env.out << " (" << proof.dropped_sync_count << " left out)";
    }
    env.out << "; " << proof.bad_state_count << " of " << proof.state_count
            << " states are bad";
    if (proof.state_count < proof.possible_state_count) {
      env.out << " (a sample of " << proof.possible_state_count << ')';
    }
    env.out << "; " << HumanSeconds(proof.record_seconds + proof.judge_seconds)
            << '\n';
    for (const CrashRisk& risk : proof.risks) {
      env.out << "  e.g. "
              << PrintableText(
                     risk.moment + ", " + risk.loss + ": " +
                     (risk.checkpoint.empty() ? "" : risk.checkpoint + ": ") +
                     risk.detail)
              << '\n';
    }
  }
}

void WriteRisk(const CrashRisk& risk, JsonWriter* json) {
  json->BeginObject();
  json->Field("problem", CrashProblemName(risk.problem));
  json->Key("missing");
  json->BeginArray();
  for (const MissingSync& sync : risk.missing) {
    json->BeginObject();
    json->Field("path", sync.path);
    json->Field("is_directory", sync.is_directory);
    json->Field("comes_later", sync.comes_later);
    json->EndObject();
  }
  json->EndArray();
  json->Field("state_count", risk.state_count);
  json->Field("checkpoint", risk.checkpoint);
  json->Field("detail", risk.detail);
  json->Field("moment", risk.moment);
  json->Field("loss", risk.loss);
  json->EndObject();
}

void PrintCostsJson(const std::vector<Proved>& all, std::ostream& out) {
  JsonWriter json(out);
  json.BeginObject();
  json.Key("programs");
  json.BeginArray();
  for (const auto& [name, proof] : all) {
    json.BeginObject();
    json.Field("program", name);
    json.Key("risks");
    json.BeginArray();
    for (const CrashRisk& risk : proof.risks) WriteRisk(risk, &json);
    json.EndArray();
    json.StringsField("checkpoints", proof.checkpoints);
    json.Field("change_count", proof.change_count);
    json.Field("sync_count", proof.sync_count);
    json.Field("dropped_sync_count", proof.dropped_sync_count);
    json.Field("state_count", proof.state_count);
    json.Field("bad_state_count", proof.bad_state_count);
    json.Field("possible_state_count", proof.possible_state_count);
    json.Field("record_seconds", proof.record_seconds);
    json.Field("judge_seconds", proof.judge_seconds);
    json.EndObject();
  }
  json.EndArray();
  json.EndObject();
  out << '\n';
}

Result<CrashProof> ProveOne(const std::string& name, const ProveArgs& args,
                            Env& env, std::vector<std::string> command) {
  ProveOptions options = args.prove;
  options.command = std::move(command);
  options.cancel = env.cancel;
  const bool shows = UseProgress(args, env);
  uint64_t shown_percent = 100;
  options.on_state = [&](uint64_t done, uint64_t total) {
    const uint64_t percent = 100 * done / total;
    if (!shows || percent == shown_percent) return;
    shown_percent = percent;
    env.err << "\r\x1b[K" << PrintableText(name) << ": " << percent << "% of "
            << total << " states" << std::flush;
  };
  auto proof = ProveCrash(options);
  if (shows) env.err << "\r\x1b[K" << std::flush;
  return proof;
}

int RunProveCrash(const ProveArgs& args, Env& env) {
  if (args.operands.empty() == args.libraries.empty()) {
    return FailUsage(env,
                     "prove-crash wants a command behind --, or --library");
  }
  if (!args.prove.root.empty() && args.libraries.size() > 1) {
    return FailUsage(env, "prove-crash: --root is for one program");
  }
  for (const std::string& library : args.libraries) {
    const auto known = ProveLibraryCommand(args.python, library);
    if (!known.ok()) {
      return Fail(env, known.status().WithContext("--library"));
    }
  }
  std::vector<Proved> all;
  const auto add = [&](const std::string& name,
                       std::vector<std::string> command) -> Status {
    auto proof = ProveOne(name, args, env, std::move(command));
    if (!proof.ok()) return proof.status().WithContext(name);
    all.push_back({name, *std::move(proof)});
    return Status();
  };
  Status status;
  if (!args.operands.empty()) {
    const std::string& program = args.operands[0];
    status = add(program.substr(program.rfind('/') + 1), args.operands);
  }
  for (const std::string& library : args.libraries) {
    if (!status.ok()) break;
    const auto command = ProveLibraryCommand(args.python, library);
    status = command.ok() ? add(library, *command) : command.status();
  }
  if (!status.ok()) {
    // The proof itself failed, so the exit code must not say that a checkpoint
    // is damaged.
    Fail(env, status);
    return status.code() == StatusCode::kInvalidArgument ? kExitUsage
                                                         : kExitFailure;
  }
  if (args.json) {
    PrintCostsJson(all, env.out);
  } else {
    PrintCosts(all, args, env);
  }
  for (const Proved& proved : all) {
    if (!proved.proof.risks.empty()) return kExitDamaged;
  }
  return kExitFine;
}

}  // namespace

int RunProveCrash(const Words& words, Env& env) {
  return RunFilled<ProveArgs>(words, env, RunProveCrash);
}

}  // namespace holdfast::cli
