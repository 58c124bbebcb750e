#include "cli/top/worker.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <condition_variable>
#include <deque>
#include <limits>
#include <mutex>
#include <sstream>
#include <thread>
#include <utility>

#include "cli/array_text.h"
#include "cli/read_selection.h"
#include "cli/slice.h"
#include "cli/units.h"
#include "holdfast/steps/steps.h"
#include "holdfast/tools/diff.h"
#include "holdfast/tools/drift.h"
#include "holdfast/tools/stats.h"

namespace holdfast::cli::top {
namespace {

constexpr uint64_t kBatchBytes = uint64_t{16} << 20;
constexpr size_t kBatchLeaves = 256;
constexpr size_t kLinesMax = 10'000;

double NumberOf(const std::optional<Scalar>& scalar) {
  if (!scalar) return std::numeric_limits<double>::quiet_NaN();
  if (scalar->dtype == DType::kInt64) {
    return static_cast<double>(scalar->As<int64_t>());
  }
  if (scalar->dtype == DType::kUint64) {
    return static_cast<double>(scalar->As<uint64_t>());
  }
  return scalar->As<double>();
}

TensorNumbers NumbersOf(const LeafStats& stats) {
  TensorNumbers numbers;
  numbers.leaf = stats.leaf;
  numbers.min = NumberOf(stats.min);
  numbers.max = NumberOf(stats.max);
  numbers.mean = stats.mean;
  numbers.std = stats.std;
  numbers.l2_norm = stats.l2_norm;
  numbers.zero_count = stats.zero_count;
  numbers.nan_count = stats.nan_count;
  numbers.infinity_count = stats.infinity_count();
  if (!stats.problem.ok()) numbers.problem = stats.problem.message();
  if (!stats.histogram) return numbers;
  const auto& counts = stats.histogram->counts;
  size_t first = 0, end = counts.size();
  while (first < end && counts[first] == 0) ++first;
  while (end > first && counts[end - 1] == 0) --end;
  numbers.first_bin = static_cast<int>(first) - MagnitudeHistogram::kZeroBin;
  numbers.bins.assign(counts.begin() + static_cast<std::ptrdiff_t>(first),
                      counts.begin() + static_cast<std::ptrdiff_t>(end));
  return numbers;
}

bool IsOpening(const Ask& ask) {
  return ask.kind == AskKind::kFirst || ask.kind == AskKind::kOpen;
}

std::string RowText(const LeafDiff& leaf) {
  std::string text(DiffVerdictName(leaf.verdict));
  text.resize(std::max<size_t>(text.size(), 11), ' ');
  if (leaf.different_count > 0) {
    char numbers[96];
    std::snprintf(numbers, sizeof numbers, "%-9.3g %5.1f%%  ",
                  leaf.max_abs_error,
                  100.0 * static_cast<double>(leaf.different_count) /
                      static_cast<double>(leaf.element_count));
    text += numbers;
  } else {
    text.resize(text.size() + 18, ' ');
  }
  return text + leaf.name;
}

}  // namespace

class Worker::Impl {
 public:
  explicit Impl(WorkerOptions options)
      : options_(std::move(options)), thread_([this] { Work(); }) {}

  ~Impl() {
    {
      const std::lock_guard lock(mutex_);
      is_over_ = true;
      cancel_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

  void Put(Ask ask) {
    {
      const std::lock_guard lock(mutex_);
      const bool cuts_all = IsOpening(ask) || ask.kind == AskKind::kCancel;
      if (cuts_all || is_measuring_) cancel_ = true;
      if (IsOpening(ask)) {
        std::erase_if(asks_, [](const Ask& waiting) {
          return waiting.kind != AskKind::kList;
        });
      }
      if (ask.kind != AskKind::kCancel) asks_.push_back(std::move(ask));
    }
    changed_.notify_all();
  }

 private:
  void Work() {
    while (true) {
      Ask ask;
      bool has_ask = false;
      {
        std::unique_lock lock(mutex_);
        const bool has_work = HasBatch();
        if (!has_work) Tell("", 0, 0);
        changed_.wait(lock,
                      [&] { return is_over_ || has_work || !asks_.empty(); });
        if (is_over_) return;
        cancel_ = false;
        has_ask = !asks_.empty();
        if (has_ask) {
          ask = std::move(asks_.front());
          asks_.pop_front();
        }
        is_measuring_ = !has_ask;
      }
      if (has_ask) {
        Do(ask);
      } else {
        Measure();
      }
    }
  }

  void Do(const Ask& ask) {
    switch (ask.kind) {
      case AskKind::kList:
        return List(ask.path);
      case AskKind::kFirst:
      case AskKind::kOpen:
        return OpenPath(ask);
      case AskKind::kValues:
        return Values(ask);
      case AskKind::kDiff:
        return Compare(ask);
      case AskKind::kVerify:
        return Check(ask);
      case AskKind::kCancel:
        return;
    }
  }

  void Tell(const std::string& phase, uint64_t done, uint64_t total) {
    options_.post(ProgressAnswer{phase, done, total});
  }

  RunOptions Run(const std::string& phase) {
    RunOptions run = options_.run;
    run.cancel = &cancel_;
    if (!phase.empty()) {
      run.progress = [this, phase](const Progress& at) {
        Tell(phase, at.done_bytes, at.total_bytes);
      };
    }
    return run;
  }

  void List(const std::string& root) {
    auto steps = ListSteps(root);
    StepsAnswer answer;
    answer.status = steps.ok() ? Status() : steps.status();
    if (steps.ok()) answer.steps = std::move(steps).value();
    // Look for live saves only if a step is not committed. A failure to find
    // them is not reported.
    const bool is_saving =
        std::any_of(answer.steps.begin(), answer.steps.end(),
                    [](const StepInfo& step) { return !step.committed; });
    Result<std::vector<LiveSave>> live = std::vector<LiveSave>();
    if (is_saving) live = LiveSaves(root);
    if (live.ok()) {
      answer.live = std::move(live).value();
    }
    options_.post(std::move(answer));
  }

  void OpenPath(const Ask& ask) {
    Tell("open", 0, 0);
    opened_.reset();
    before_.reset();
    measured_ = drifted_ = 0;
    since_ = ask.other;
    const bool may_be_root = ask.kind == AskKind::kFirst && !options_.open.step;
    auto result = may_be_root ? OpenUnlessRoot(ask.path, options_.open)
                              : Open(ask.path, options_.open);
    if (result.ok() && *result == nullptr) {
      return options_.post(RootAnswer{ask.path});
    }
    OpenedAnswer answer;
    answer.path = path_ = ask.path;
    answer.status = result.ok() ? Status() : result.status();
    if (result.ok()) {
      opened_ = std::move(result).value();
      answer.opened = MakeOpened(opened_);
      identity_ = Identity(*opened_);
    }
    options_.post(std::move(answer));
  }

  std::string Identity(const Checkpoint& checkpoint) const {
    if (options_.cache == nullptr || !options_.measures) return "";
    return StatsCache::IdentityOf(checkpoint);
  }

  void Values(const Ask& ask) {
    if (opened_ == nullptr || ask.path != path_) return;
    ValuesAnswer answer{ask.path, ask.leaf, ""};
    answer.text = TextOf(*opened_, ask.leaf);
    options_.post(std::move(answer));
  }

  static std::string TextOf(const Checkpoint& checkpoint, size_t leaf) {
    const LeafInfo& info = checkpoint.leaves()[leaf];
    if (info.kind != ValueKind::kArray && info.kind != ValueKind::kScalar) {
      const auto text = checkpoint.ReadText(leaf);
      return text.ok() ? text->substr(0, 1 << 16) : "";
    }
    const auto picture =
        ReadEdges(checkpoint, leaf, SelectAll(info.shape), kEdgeCount);
    if (!picture.ok()) return std::string(picture.status().message());
    std::ostringstream out;
    PrintArray(picture->view, info.shape, out);
    return out.str();
  }

  void Compare(const Ask& ask) {
    if (opened_ == nullptr || ask.path != path_) return;
    TextAnswer answer;
    answer.path = ask.path;
    Tell("diff", 0, 0);
    const auto other = Open(ask.other, {.stored_sizes = false});
    if (!other.ok()) {
      answer.status = other.status();
      return options_.post(std::move(answer));
    }
    DiffOptions how;
    how.run = Run("diff");
    how.find_renamed = false;
    const auto diff = Diff(*opened_, **other, how);
    if (!diff.ok()) {
      answer.status = diff.status();
      return options_.post(std::move(answer));
    }
    const std::vector<size_t> worst = WorstFirst(*diff);
    answer.title = Counted(worst.size(), "leaf differs", "leaves differ") +
                   " from " + ask.other.substr(ask.other.rfind('/') + 1) +
                   ", " + std::to_string(diff->same_count) + " the same";
    answer.lines.push_back("WHAT       MAX ERROR SHARE  NAME");
    for (const size_t i : worst) {
      if (answer.lines.size() == kLinesMax) break;
      answer.lines.push_back(RowText(diff->leaves[i]));
    }
    options_.post(std::move(answer));
  }

  void Check(const Ask& ask) {
    TextAnswer answer;
    answer.path = ask.path;
    const auto report = Verify(ask.path, options_.open, Run("verify"));
    if (!report.ok()) {
      answer.status = report.status();
      return options_.post(std::move(answer));
    }
    answer.is_bad = !report->damages.empty();
    answer.title =
        answer.is_bad
            ? Counted(report->damages.size(), "damage", "damages") + " found"
            : "verified: " + Counted(report->chunk_count, "chunk", "chunks") +
                  " as saved";
    if (!report->not_supported.empty()) {
      answer.title += ", " + std::to_string(report->not_supported.size()) +
                      " not supported";
    }
    for (const Damage& found : report->not_supported) {
      if (answer.lines.size() == kLinesMax) break;
      answer.lines.push_back("not supported: " +
                             std::string(found.status.message()));
    }
    for (const Damage& damage : report->damages) {
      if (answer.lines.size() == kLinesMax) break;
      answer.lines.emplace_back(damage.status.message());
      if (opened_ == nullptr || ask.path != path_) continue;
      if (const auto leaf = opened_->Find(damage.leaf); leaf.ok()) {
        answer.damaged_leaves.push_back(*leaf);
      }
    }
    options_.post(std::move(answer));
  }

  // --- Measured between requests ---

  bool HasBatch() const {
    if (opened_ == nullptr || !options_.measures) return false;
    const size_t count = opened_->leaves().size();
    return measured_ < count || (!since_.empty() && drifted_ < count);
  }

  // Returns the end of the batch of leaves that starts at `first`.
  size_t BatchEnd(size_t first) const {
    const std::vector<LeafInfo>& leaves = opened_->leaves();
    uint64_t bytes = 0;
    size_t end = first;
    while (end < leaves.size() && end < first + kBatchLeaves &&
           (end == first || bytes + leaves[end].decoded_bytes <= kBatchBytes)) {
      bytes += leaves[end++].decoded_bytes;
    }
    return end;
  }

  auto Selecting(size_t first, size_t end) const {
    const LeafInfo* leaves = opened_->leaves().data();
    return [=](const LeafInfo& leaf) {
      return &leaf >= leaves + first && &leaf < leaves + end;
    };
  }

  void Measure() {
    const size_t count = opened_->leaves().size();
    if (measured_ < count) {
      Tell("statistics", measured_, count);
      return MeasureStats();
    }
    Tell("drift", drifted_, count);
    MeasureDrift();
  }

  void MeasureStats() {
    const size_t end = BatchEnd(measured_);
    StatsOptions how;
    how.run = Run("");
    how.histograms = true;
    how.select = Selecting(measured_, end);
    how.cache = options_.cache;
    how.identity = identity_;
    const auto stats = ComputeStats(*opened_, how);
    if (!stats.ok() && stats.status().code() == StatusCode::kCancelled) return;
    measured_ = end;
    if (!stats.ok()) return Fail(stats.status());
    NumbersAnswer answer;
    answer.path = path_;
    for (const LeafStats& leaf : stats->leaves) {
      answer.tensors.push_back(NumbersOf(leaf));
    }
    options_.post(std::move(answer));
  }

  void MeasureDrift() {
    if (before_ == nullptr) {
      auto before = Open(since_, {.stored_sizes = false});
      if (!before.ok()) {
        since_.clear();
        return Fail(before.status());
      }
      before_ = std::move(before).value();
      identity_before_ = Identity(*before_);
    }
    const size_t end = BatchEnd(drifted_);
    DriftOptions how;
    how.run = Run("");
    how.select = Selecting(drifted_, end);
    how.cache = options_.cache;
    how.identity_before = identity_before_;
    how.identity_now = identity_;
    const auto drift = ComputeDrift(*before_, *opened_, how);
    if (!drift.ok() && drift.status().code() == StatusCode::kCancelled) return;
    drifted_ = end;
    if (!drift.ok()) return Fail(drift.status());
    DriftAnswer answer{path_, since_, {}};
    for (const LeafDrift& leaf : drift->leaves) {
      if (!leaf.problem.ok()) continue;
      answer.tensors.push_back({leaf.now, leaf.moved, leaf.norm});
    }
    options_.post(std::move(answer));
  }

  void Fail(const Status& status) {
    options_.post(TextAnswer{.title = "", .status = status, .path = path_});
  }

  const WorkerOptions options_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Ask> asks_;       // guarded by mutex_
  bool is_over_ = false;       // guarded by mutex_
  bool is_measuring_ = false;  // guarded by mutex_
  std::atomic<bool> cancel_{false};
  // Used only by the worker.
  std::string path_, since_, identity_, identity_before_;
  std::shared_ptr<const Checkpoint> opened_, before_;
  size_t measured_ = 0, drifted_ = 0;  // leaves that are done
  std::thread thread_;                 // last, since it uses all other members
};

Worker::Worker(WorkerOptions options)
    : impl_(std::make_unique<Impl>(std::move(options))) {}
Worker::~Worker() = default;
void Worker::Put(Ask ask) { impl_->Put(std::move(ask)); }

}  // namespace holdfast::cli::top
