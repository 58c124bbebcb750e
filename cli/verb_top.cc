// top: browses steps and tensors in a terminal.

#include <chrono>
#include <deque>
#include <mutex>

#include "cli/failures.h"
#include "cli/top/layout.h"
#include "cli/top/model.h"
#include "cli/top/worker.h"
#include "cli/units.h"
#include "cli/verbs.h"
#include "holdfast/steps/steps.h"

namespace holdfast::cli {
namespace {

struct TopArgs : Args {
  bool follow = false;
  std::string cache;
  bool statistics = true;

  template <typename Fn>
  void Fields(const Fn& fn) {
    Args::Fields(fn);
    fn("follow", follow);
    fn("cache", cache);
    fn("statistics", statistics);
  }
};

// How often --watch looks for changes, and the longest that other modes wait
// for a signal.
constexpr double kWatchSeconds = 1;

int64_t NowNs() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

// The queue of answers from the worker.
class Answers {
 public:
  void Put(top::Answer answer) {
    const std::lock_guard lock(mutex_);
    const bool is_progress =
        std::holds_alternative<top::ProgressAnswer>(answer);
    // Only the last progress counts.
    if (is_progress && !waiting_.empty() &&
        std::holds_alternative<top::ProgressAnswer>(waiting_.back())) {
      waiting_.pop_back();
    }
    waiting_.push_back(std::move(answer));
  }
  std::deque<top::Answer> Take() {
    const std::lock_guard lock(mutex_);
    return std::exchange(waiting_, {});
  }

 private:
  std::mutex mutex_;
  std::deque<top::Answer> waiting_;
};

class TopLoop {
 public:
  TopLoop(const TopArgs& args, const Env& env, top::Terminal& terminal,
          top::State& state, StatsCache* cache)
      : args_(args),
        env_(env),
        terminal_(terminal),
        state_(state),
        cache_(cache),
        worker_(WorkerOptionsOf()) {}

  // Returns the signal that ended it, or 0.
  int Run() {
    Ask(top::FirstAsks(state_));
    while (!state_.is_over) {
      terminal_.Draw(top::Lay(
          state_,
          {.size = terminal_.size(), .utf8 = env_.utf8, .now_ns = NowNs()}));
      const top::Event event = terminal_.Wait(kWatchSeconds);
      if (event.signal != 0) return event.signal;
      for (const top::Key key : event.keys) {
        Ask(top::OnKey(state_, key, top::PageRows(terminal_.size())));
      }
      for (const top::Answer& answer : answers_.Take()) {
        if (std::holds_alternative<top::StepsAnswer>(answer)) {
          is_listing_ = false;
        }
        Ask(top::OnAnswer(state_, answer));
      }
      if (state_.follows) LookAgain();
    }
    return 0;
  }

 private:
  top::WorkerOptions WorkerOptionsOf() {
    OpenOptions open = args_.open;
    open.leaves_only = !args_.statistics;
    return {.open = std::move(open),
            .run = RunOptionsOf(args_, env_),
            .measures = args_.statistics,
            .cache = cache_,
            .post = [this](top::Answer answer) {
              answers_.Put(std::move(answer));
              terminal_.Wake();
            }};
  }

  void Ask(const std::vector<top::Ask>& asks) {
    for (const top::Ask& ask : asks) worker_.Put(ask);
  }

  void LookAgain() {
    const int64_t now_ns = NowNs();
    constexpr auto kEveryNs = static_cast<int64_t>(kWatchSeconds * 1e9);
    if (is_listing_ || now_ns - listed_ns_ < kEveryNs) return;
    is_listing_ = true;
    listed_ns_ = now_ns;
    worker_.Put({.kind = top::AskKind::kList, .path = state_.path});
  }

  const TopArgs& args_;
  const Env& env_;
  top::Terminal& terminal_;
  top::State& state_;
  StatsCache* const cache_;
  Answers answers_;
  int64_t listed_ns_ = 0;
  bool is_listing_ = false;
  top::Worker worker_;  // last, because it posts to the other members
};

int RunTop(const TopArgs& args, Env& env) {
  const std::string& path = args.operands[0];
  if (!env.open_terminal) {
    return Fail(env, FailedPreconditionError("top: there is no terminal here"));
  }
  const bool is_root = args.follow && !args.open.step && IsRootOfSteps(path);
  if (args.follow && !is_root) {
    return FailUsage(env, "--watch: " + path + " is not a directory of steps");
  }
  std::optional<StatsCache> cache;
  if (!args.cache.empty()) cache.emplace(args.cache);
  auto terminal =
      env.open_terminal(args.color != When::kNever && !env.no_color);
  if (!terminal.ok()) return Fail(env, terminal.status());
  top::State state = top::NewState(path, is_root, args.follow);
  if (cache && !cache->warning().empty()) {
    state.warning = "--cache: " + cache->warning();
  }
  const int signal =
      TopLoop(args, env, **terminal, state, cache ? &*cache : nullptr).Run();
  terminal->reset();
  const Status kept = cache ? cache->Write() : Status();
  if (!kept.ok()) Fail(env, kept);
  constexpr int kSignalled = 128;
  return signal == 0 ? kExitFine : kSignalled + signal;
}

}  // namespace

int RunTop(const Words& words, Env& env) {
  return RunFilled<TopArgs>(words, env, RunTop);
}

}  // namespace holdfast::cli
