#include "holdfast/tools/prove.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <utility>

#include "ground/base/shell_command.h"
#include "ground/base/status_macros.h"
#include "holdfast/tools/glob.h"
#include "tools/prove/causes.h"
#include "tools/prove/listing.h"
#include "tools/prove/saved.h"
#include "tools/prove/tracee_calls.h"
#include "tools/prove/tracer.h"

namespace holdfast {

using Kind = DiskChange::Kind;

namespace {

constexpr uint64_t kMixesEach = 4;
// A node that does not exist. A sync of this node has no effect, and replaces a
// dropped sync.
constexpr NodeId kNobody = kNoNode - 1;

double SecondsNow() {
  return std::chrono::duration<double>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// The placeholder for the program's directory in commands.
constexpr std::string_view kRootName = "{root}";

std::string WithRoot(std::string text, const std::string& root) {
  for (size_t at = 0; (at = text.find(kRootName, at)) != text.npos;
       at += root.size()) {
    text.replace(at, kRootName.size(), root);
  }
  return text;
}

// Drops the syncs of files that match the globs, and returns how many. The
// globs are matched with the file's name at the time of the sync and with its
// last name, because files are renamed later.
uint64_t DropSyncs(const std::vector<std::string>& globs, DiskRecord& record) {
  if (globs.empty()) return 0;
  const auto last_paths = LastPaths(record);
  uint64_t dropped_count = 0;
  DiskState state = record.start;
  for (DiskChange& change : record.changes) {
    state.Apply(change);
    if (change.kind != Kind::kSync) continue;
    const auto now_paths = state.Paths();
    const bool is_dropped =
        std::any_of(globs.begin(), globs.end(), [&](const std::string& glob) {
          for (const auto* paths : {&now_paths, &last_paths}) {
            const auto path = paths->find(change.node);
            if (path != paths->end() && GlobMatches(glob, path->second)) {
              return true;
            }
          }
          return false;
        });
    if (!is_dropped) continue;
    change.node = kNobody;
    ++dropped_count;
  }
  return dropped_count;
}

class Proof {
 public:
  Proof(const ProveOptions& options, TracedRun run)
      : options_(options), run_(std::move(run)) {}

  Result<CrashProof> Run() {
    const double start = SecondsNow();
    proof_.dropped_sync_count = DropSyncs(options_.without_sync, run_.record);
    proof_.change_count = run_.record.changes.size();
    for (const DiskChange& change : run_.record.changes) {
      proof_.sync_count += change.kind == Kind::kSync && change.node != kNobody;
    }
    HF_RETURN_IF_ERROR(options_.check.empty() ? ListAll() : CheckTheEnd());
    HF_RETURN_IF_ERROR(JudgeAll());
    proof_.judge_seconds = SecondsNow() - start;
    return std::move(proof_);
  }

 private:
  bool is_cancelled() const {
    return options_.cancel != nullptr && options_.cancel->load();
  }

  DiskState StateAt(size_t prefix) const {
    DiskState state = run_.record.start;
    for (size_t i = 0; i < prefix; ++i) state.Apply(run_.record.changes[i]);
    return state;
  }

  // Finds the places of the checkpoints at the end and at the marks.
  Status Locate() {
    std::vector<size_t> prefixes = {run_.record.changes.size()};
    for (const TraceMark& mark : run_.marks) {
      prefixes.push_back(mark.change_count);
    }
    for (const size_t prefix : prefixes) {
      HF_ASSIGN_OR_RETURN(const std::string path,
                          lister_.Show(StateAt(prefix).List()));
      Places places = FindPlaces(path);
      if (prefix == prefixes[0]) places_.is_itself = places.is_itself;
      places_.roots.merge(places.roots);
      places_.entries.merge(places.entries);
    }
    return Status();
  }

  // Lists the checkpoints after each of the run's changes.
  Status ListAll() {
    HF_RETURN_IF_ERROR(Locate());
    DiskState state = run_.record.start;
    for (size_t i = 0; i <= run_.record.changes.size(); ++i) {
      if (is_cancelled()) return CancelledError("the operation was cancelled");
      if (i > 0) state.Apply(run_.record.changes[i - 1]);
      HF_ASSIGN_OR_RETURN(Listing listing, lister_.List(state.List(), places_));
      listed_.push_back(std::move(listing));
    }
    points_ = SavePoints(run_.record, run_.marks, listed_);
    return CheckListed();
  }

  Status CheckListed() {
    if (listed_.back().empty()) {
      return NotFoundError(
          "prove-crash: no checkpoint that holdfast opens was below the "
          "directory when the command ended (--check takes a judge of yours)");
    }
    for (const auto& [name, content] : listed_.back()) {
      proof_.checkpoints.push_back(name);
      if (content.problem.empty()) continue;
      return FailedPreconditionError("prove-crash: " + name +
                                     " cannot be loaded though nothing was "
                                     "lost: " +
                                     content.problem);
    }
    return Status();
  }

  Status CheckTheEnd() {
    const size_t end = run_.record.changes.size();
    HF_ASSIGN_OR_RETURN(const auto findings, Judge(StateAt(end), end));
    if (findings.empty()) return Status();
    return FailedPreconditionError(
        "prove-crash: --check fails though nothing was lost: " +
        findings[0].detail);
  }

  Result<std::vector<CrashFinding>> Judge(const DiskState& state,
                                          size_t prefix) {
    const Files files = state.List();
    if (!options_.check.empty()) return Check(files, prefix);
    HF_ASSIGN_OR_RETURN(const Listing listing, lister_.List(files, places_));
    return JudgeListing(listing, prefix, points_, listed_);
  }

  Result<std::vector<CrashFinding>> Check(const Files& files, size_t prefix) {
    std::string marks;
    for (const TraceMark& mark : run_.marks) {
      if (mark.change_count <= prefix) marks += mark.text + '\n';
    }
    const auto [it, is_new] =
        checked_.try_emplace({FingerprintOf(files, ""), marks}, 0);
    if (is_new) {
      HF_ASSIGN_OR_RETURN(const std::string path, lister_.Show(files));
      const std::string variable = "HOLDFAST_PROVE_STATE";
      HF_ASSIGN_OR_RETURN(const std::string command,
                          ShellText(options_.check, kRootName, variable, path));
      HF_ASSIGN_OR_RETURN(const int status,
                          RunShell(command, {{variable, path},
                                             {"HOLDFAST_PROVE_MARKS", marks}}));
      it->second = WIFEXITED(status) ? WEXITSTATUS(status) : 128;
      lister_.Reload();
    }
    std::vector<CrashFinding> findings;
    if (it->second != 0) {
      findings.push_back(
          {CrashProblem::kCheck, "",
           "the command ended with " + std::to_string(it->second)});
    }
    return findings;
  }

  Status JudgeAll() {
    CauseFinder causes(run_.record,
                       [this](const DiskState& state, size_t prefix) {
                         return Judge(state, prefix);
                       });
    StateChoice choice{kMixesEach, options_.seed << 32};
    uint64_t index = 0;
    choice.wanted = [&](const CrashState&) { return ++index == 0; };
    VisitCrashStates(run_.record, choice, {});
    const uint64_t total = std::exchange(index, 0);
    const uint64_t wanted = options_.state_count_max == 0
                                ? total
                                : std::min(total, options_.state_count_max);
    proof_.possible_state_count = total;
    const auto chosen_below = [&](uint64_t i) {
      return (i * wanted + options_.seed % total) / total;
    };
    Status status;
    choice.wanted = [&](const CrashState&) {
      const uint64_t i = index++;
      return status.ok() && chosen_below(i + 1) > chosen_below(i);
    };
    VisitCrashStates(run_.record, choice,
                     [&](const CrashState& crash, const DiskModel& model) {
                       status = JudgeOne(crash, model, causes);
                       if (options_.on_state) {
                         options_.on_state(proof_.state_count, wanted);
                       }
                     });
    HF_RETURN_IF_ERROR(status);
    proof_.risks = causes.Take();
    return Status();
  }

  Status JudgeOne(const CrashState& crash, const DiskModel& model,
                  CauseFinder& causes) {
    if (is_cancelled()) return CancelledError("the operation was cancelled");
    HF_ASSIGN_OR_RETURN(
        const auto findings,
        Judge(StateAfter(model, crash.loss, crash.seed), crash.prefix));
    ++proof_.state_count;
    proof_.bad_state_count += findings.empty() ? 0 : 1;
    for (const CrashFinding& finding : findings) {
      HF_RETURN_IF_ERROR(causes.Add(crash, model, finding));
    }
    return Status();
  }

  const ProveOptions& options_;
  TracedRun run_;
  CrashProof proof_;
  StateLister lister_;
  Places places_;
  std::vector<Listing> listed_;
  std::vector<SavePoint> points_;
  std::map<std::pair<Fingerprint, std::string>, int> checked_;
};

// The caller's directory, or a new one that is removed with this object.
class ProveRoot {
 public:
  explicit ProveRoot(const std::string& wanted) : path_(wanted) {
    namespace fs = std::filesystem;
    if (path_.empty()) {
      std::error_code error;
      path_ = (fs::temp_directory_path(error) / "holdfast-prove.XXXXXX");
      is_own_ = ::mkdtemp(path_.data()) != nullptr;
    }
    std::error_code error;
    path_ = fs::canonical(path_, error);
    if (error || !fs::is_directory(path_, error)) path_.clear();
  }
  ~ProveRoot() {
    std::error_code ignored;
    if (is_own_) std::filesystem::remove_all(path_, ignored);
  }
  ProveRoot(const ProveRoot&) = delete;
  ProveRoot& operator=(const ProveRoot&) = delete;

  const std::string& path() const { return path_; }

 private:
  std::string path_;
  bool is_own_ = false;
};

}  // namespace

std::string_view CrashProblemName(CrashProblem problem) {
  constexpr std::string_view kNames[] = {"lost", "damaged", "wrong", "check"};
  return kNames[static_cast<size_t>(problem)];
}

Result<CrashProof> ProveCrash(const ProveOptions& options) {
  if (options.command.empty()) {
    return InvalidArgumentError("prove-crash: no command");
  }
  const ProveRoot root(options.root);
  if (root.path().empty()) {
    return NotFoundError("prove-crash: no directory " + options.root);
  }
  std::vector<std::string> command;
  for (const std::string& word : options.command) {
    command.push_back(WithRoot(word, root.path()));
  }
  const double start = SecondsNow();
  HF_ASSIGN_OR_RETURN(TracedRun run, TraceCommand(command, root.path()));
  const double seconds = SecondsNow() - start;
  if (options.cancel != nullptr && options.cancel->load()) {
    return CancelledError("the operation was cancelled");
  }
  if (run.exit_code != 0) {
    return FailedPreconditionError("prove-crash: the command ended with " +
                                   std::to_string(run.exit_code));
  }
  if (!run.gap.empty()) {
    return FailedPreconditionError("prove-crash: the record is not complete: " +
                                   run.gap);
  }
  HF_ASSIGN_OR_RETURN(CrashProof proof, Proof(options, std::move(run)).Run());
  proof.record_seconds = seconds;
  return proof;
}

void CrashMark(std::string_view text) {
  const char* const root = std::getenv("HOLDFAST_PROVE_ROOT");
  if (root == nullptr) return;
  // This directory does not exist, but the tracer sees the attempt to remove
  // it.
  std::string name(text);
  for (char& c : name) c = c == '/' || c == '\0' ? '_' : c;
  ::rmdir((std::string(root) + "/" + kMarkPrefix + name).c_str());
}

}  // namespace holdfast
