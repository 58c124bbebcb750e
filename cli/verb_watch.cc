// watch: shows the saves in progress at a root, rank by rank.

#include <algorithm>
#include <chrono>
#include <map>
#include <thread>

#include "cli/failures.h"
#include "cli/json_out.h"
#include "cli/text_table.h"
#include "cli/units.h"
#include "cli/verbs.h"
#include "holdfast/tools/watch.h"

namespace holdfast::cli {
namespace {

struct WatchArgs : Args {
  bool once = false;
  double interval_seconds = 1;

  template <typename Fn>
  void Fields(const Fn& fn) {
    Args::Fields(fn);
    fn("once", once);
    fn("interval_seconds", interval_seconds);
  }
};

std::string DoneText(const LiveRank& rank) {
  if (rank.total_bytes == 0) return "-";
  return HumanBytes(rank.done_bytes) + " of " + HumanBytes(rank.total_bytes);
}

std::string SpeedText(const LiveRank& rank) {
  if (rank.bytes_per_second <= 0) return "-";
  return HumanBytes(static_cast<uint64_t>(rank.bytes_per_second)) + "/s";
}

std::string LeftText(const LiveRank& rank) {
  return rank.expected_seconds ? HumanSeconds(*rank.expected_seconds) : "-";
}

void PrintTable(const std::vector<LiveSave>& saves, const WatchArgs& args,
                Env& env) {
  if (saves.empty() && !args.quiet) env.out << "no save is under way\n";
  for (const LiveSave& save : saves) {
    if (!args.quiet) env.out << PrintableText(save.path) << '\n';
    TextTable table({{"RANK", Align::kRight},
                     {"HOST", Align::kLeft, Fit::kDrop},
                     {"PID", Align::kRight, Fit::kDrop},
                     {"PHASE"},
                     {"FOR", Align::kRight},
                     {"DONE"},
                     {"SPEED", Align::kRight, Fit::kDrop},
                     {"LEFT", Align::kRight, Fit::kDrop},
                     {"LAG", Align::kLeft, Fit::kShorten}});
    for (const LiveRank& rank : save.ranks) {
      table.AddRow({std::to_string(rank.rank), PrintableText(rank.host),
                    std::to_string(rank.pid), PrintableText(rank.phase),
                    HumanSeconds(rank.phase_seconds), DoneText(rank),
                    SpeedText(rank), LeftText(rank),
                    rank.lag.empty() ? "-" : rank.lag});
    }
    table.Print(TableStyleOf(args, env), env.out);
  }
}

void WriteRank(const LiveRank& rank, JsonWriter& json) {
  json.BeginObject();
  json.Field("rank", rank.rank);
  json.Field("rank_count", rank.rank_count);
  json.Field("host", rank.host);
  json.Field("pid", rank.pid);
  json.Field("phase", rank.phase);
  json.Field("phase_seconds", rank.phase_seconds);
  json.Field("total_seconds", rank.total_seconds);
  json.Field("done_bytes", rank.done_bytes);
  json.Field("total_bytes", rank.total_bytes);
  json.Field("bytes_per_second", rank.bytes_per_second);
  if (rank.expected_seconds) {
    json.Field("expected_seconds", *rank.expected_seconds);
  } else {
    json.NullField("expected_seconds");
  }
  json.Field("seen_seconds", rank.seen_seconds);
  json.Field("lag", rank.lag);
  json.EndObject();
}

void PrintWatchJson(const std::vector<LiveSave>& saves, const WatchArgs& args,
                    std::ostream& out) {
  JsonWriter json(out);
  json.BeginObject();
  json.Field("path", args.operands[0]);
  json.Key("saves");
  json.BeginArray();
  for (const LiveSave& save : saves) {
    json.BeginObject();
    json.Field("path", save.path);
    json.Field("directory", save.directory);
    json.Key("ranks");
    json.BeginArray();
    for (const LiveRank& rank : save.ranks) WriteRank(rank, json);
    json.EndArray();
    json.EndObject();
  }
  json.EndArray();
  json.EndObject();
  out << '\n';
}

// Prints a line for each rank that entered another phase, or started or stopped
// lagging. Used for output that cannot be redrawn.
class ChangeLines {
 public:
  void Print(const std::vector<LiveSave>& saves, std::ostream& out) {
    std::map<std::string, std::string> now;
    for (const LiveSave& save : saves) {
      for (const LiveRank& rank : save.ranks) {
        const std::string who =
            save.path + " rank " + std::to_string(rank.rank);
        const bool is_late = !rank.lag.empty();
        now[who] = rank.phase + (is_late ? " late" : "");
        if (before_[who] == now[who]) continue;
        out << PrintableText(who + ": " + rank.phase + ", " + DoneText(rank) +
                             (is_late ? "; " + rank.lag : ""))
            << '\n';
      }
    }
    for (const auto& [who, state] : before_) {
      if (!now.contains(who)) out << PrintableText(who + ": ended") << '\n';
    }
    before_ = std::move(now);
    out.flush();
  }

 private:
  std::map<std::string, std::string> before_;
};

// Waits in short steps, so that an interrupt is handled soon.
void WaitFor(double seconds, const Env& env) {
  constexpr std::chrono::milliseconds kPart{50};
  const auto end =
      std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  while (!env.cancelled() && std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(kPart);
  }
}

int RunWatch(const WatchArgs& args, Env& env) {
  ChangeLines lines;
  while (!env.cancelled()) {
    const auto saves = LiveSaves(args.operands[0]);
    if (!saves.ok()) return Fail(env, saves.status());
    if (args.json) {
      PrintWatchJson(*saves, args, env.out);
    } else if (args.once) {
      PrintTable(*saves, args, env);
    } else if (env.out_is_terminal) {
      env.out << "\x1b[H\x1b[J";
      PrintTable(*saves, args, env);
    } else {
      lines.Print(*saves, env.out);
    }
    env.out.flush();
    if (args.once || !env.out) break;
    WaitFor(args.interval_seconds, env);
  }
  return kExitFine;
}

}  // namespace

int RunWatch(const Words& words, Env& env) {
  return RunFilled<WatchArgs>(words, env, RunWatch);
}

}  // namespace holdfast::cli
