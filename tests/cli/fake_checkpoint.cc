#include "tests/cli/fake_checkpoint.h"

#include <map>
#include <mutex>
#include <utility>

#include "ground/tensor/box.h"
#include "ground/tensor/copy.h"
#include "holdfast/process_group.h"
#include "holdfast/tiers/goodput.h"
#include "holdfast/tools/diff.h"
#include "holdfast/tools/drift.h"
#include "holdfast/tools/history.h"
#include "holdfast/tools/merge.h"
#include "holdfast/tools/prove.h"
#include "holdfast/tools/rescue.h"
#include "holdfast/tools/serve.h"
#include "holdfast/tools/stats.h"
#include "holdfast/tools/stats_cache.h"
#include "holdfast/tools/watch.h"

namespace holdfast {
namespace testing {
namespace {

struct World {
  std::map<std::string, FakeCheckpoint> checkpoints;
  std::map<std::string, std::vector<StepInfo>> roots;
  std::vector<Progress> progress;
  FakeCalls calls;
  std::mutex mutex;
};

World& TheWorld() {
  static World world;
  return world;
}

std::vector<std::string> SplitKey(const std::string& name) {
  std::vector<std::string> key;
  size_t begin = 0;
  for (size_t dot = 0; dot != std::string::npos; begin = dot + 1) {
    dot = name.find('.', begin);
    key.push_back(name.substr(begin, dot - begin));
  }
  return key;
}

class OpenedFake : public Checkpoint {
 public:
  explicit OpenedFake(const FakeCheckpoint& fake) : fake_(fake) {
    info_ = fake.info;
    for (const FakeLeaf& leaf : fake.leaves) infos_.push_back(leaf.info);
  }

 protected:
  Result<Stats> DoReadInto(const std::vector<ReadRequest>& requests,
                           const RunOptions& /*run*/) const override {
    for (const ReadRequest& request : requests) {
      const Status& status = fake_.leaves[request.leaf].status;
      if (!status.ok()) return status;
      const Array whole = Whole(request.leaf);
      const bool is_whole = request.target.shape == whole.shape();
      Count([&](FakeCalls& calls) {
        if (is_whole) {
          ++calls.read_count;
        } else {
          calls.boxes.emplace_back(request.origin, request.target.shape);
        }
      });
      CopyStrided(Subview(whole.view(), {request.origin, request.target.shape}),
                  request.target);
    }
    return Stats();
  }
  Result<std::string> DoReadText(size_t leaf) const override {
    const FakeLeaf& fake = fake_.leaves[leaf];
    return fake.status.ok() ? Result<std::string>(fake.bytes) : fake.status;
  }

 public:
  const FakeLeaf& fake_leaf(size_t leaf) const { return fake_.leaves[leaf]; }

 private:
  Array Whole(size_t leaf) const {
    return Array::FromBytes(*infos_[leaf].dtype, infos_[leaf].shape,
                            fake_.leaves[leaf].bytes.data());
  }
  template <typename F>
  static void Count(F count) {
    const std::lock_guard lock(TheWorld().mutex);
    count(TheWorld().calls);
  }

  const FakeCheckpoint& fake_;
};

}  // namespace

void ClearWorld() {
  TheWorld().checkpoints.clear();
  TheWorld().roots.clear();
  TheWorld().progress.clear();
  TheWorld().calls = {};
}

FakeCalls& Calls() { return TheWorld().calls; }

void PutCheckpoint(const std::string& path, FakeCheckpoint checkpoint) {
  checkpoint.info.path = path;
  TheWorld().checkpoints[path] = std::move(checkpoint);
}

void PutSteps(const std::string& root, std::vector<StepInfo> steps) {
  TheWorld().roots[root] = std::move(steps);
}

void PutProgress(std::vector<Progress> progress) {
  TheWorld().progress = std::move(progress);
}

FakeLeaf RawLeaf(const std::string& name, DType dtype, Shape shape,
                 std::string bytes) {
  FakeLeaf leaf;
  leaf.info.name = name;
  leaf.info.key = SplitKey(name);
  leaf.info.kind = shape.empty() ? ValueKind::kScalar : ValueKind::kArray;
  leaf.info.dtype = dtype;
  leaf.info.shape = shape;
  leaf.info.chunk_shape = shape;
  leaf.info.codecs = "zstd";
  leaf.info.chunk_count = 1;
  leaf.info.stored_bytes = bytes.size() / 2;
  leaf.info.decoded_bytes = bytes.size();
  leaf.bytes = std::move(bytes);
  return leaf;
}

FakeLeaf TextLeaf(const std::string& name, ValueKind kind, std::string text) {
  FakeLeaf leaf = EmptyLeaf(name, kind);
  leaf.info.stored_bytes = leaf.info.decoded_bytes = text.size();
  leaf.bytes = std::move(text);
  return leaf;
}

FakeLeaf EmptyLeaf(const std::string& name, ValueKind kind) {
  FakeLeaf leaf;
  leaf.info.name = name;
  leaf.info.key = SplitKey(name);
  leaf.info.kind = kind;
  return leaf;
}

}  // namespace testing

using testing::TheWorld;

Result<std::unique_ptr<Checkpoint>> Open(const std::string& path,
                                         const OpenOptions& options) {
  TheWorld().calls.open = options;
  const auto found = TheWorld().checkpoints.find(path);
  if (found == TheWorld().checkpoints.end()) {
    return NotFoundError("no checkpoint at " + path);
  }
  return std::unique_ptr<Checkpoint>(
      std::make_unique<testing::OpenedFake>(found->second));
}

// Returns 64 hex digits that depend on the leaf's bytes. It is not a SHA-256:
// the verbs only print and compare digests.
Result<std::string> DigestLeaf(const Checkpoint& checkpoint, size_t leaf) {
  const auto& fake =
      static_cast<const testing::OpenedFake&>(checkpoint).fake_leaf(leaf);
  if (fake.on_digest) fake.on_digest();
  if (!fake.status.ok()) return fake.status;
  std::string digest(64, '0');
  for (size_t i = 0; i < fake.bytes.size(); ++i) {
    const auto code = static_cast<unsigned char>(fake.bytes[i]) + i;
    digest[i % 64] = "0123456789abcdef"[(digest[i % 64] + code) % 16];
  }
  return digest;
}

bool IsDamage(const Status& status) {
  return status.code() != StatusCode::kResourceExhausted;
}

bool IsNotSupported(const Status& status) {
  return status.code() == StatusCode::kUnimplemented;
}

bool IsNotSupported(const LeafInfo& leaf) {
  return IsNotSupported(leaf.problem);
}

Result<VerifyReport> Verify(const std::string& path, const OpenOptions& options,
                            const RunOptions& run, ProcessGroup* group) {
  if (group != nullptr) {
    // All ranks must make the call.
    const Status status = group->Agree({"verify", path}, Status());
    if (!status.ok()) return status;
  }
  auto& world = TheWorld();
  world.calls.open = options;
  world.calls.threads = run.threads;
  world.calls.memory_bytes = run.memory_bytes;
  const auto found = world.checkpoints.find(path);
  if (found == world.checkpoints.end()) {
    return NotFoundError("no checkpoint at " + path);
  }
  for (const Progress& progress : world.progress) {
    if (run.progress) run.progress(progress);
  }
  if (run.cancel != nullptr && run.cancel->load()) {
    return CancelledError("cancelled");
  }
  if (!found->second.verify_status.ok()) return found->second.verify_status;
  return found->second.report;
}

Result<ConvertResult> Convert(const std::string& source,
                              const std::string& target,
                              const ConvertOptions& options) {
  auto& world = TheWorld();
  world.calls.convert = options;
  world.calls.convert_target = target;
  const auto found = world.checkpoints.find(source);
  if (found == world.checkpoints.end()) {
    return NotFoundError("no checkpoint at " + source);
  }
  ConvertResult result;
  result.leaf_count = found->second.leaves.size();
  result.decoded_bytes = 3 << 20;
  result.read_bytes = 2 << 20;
  result.written_bytes = 1 << 20;
  result.total_seconds = 0.5;
  if (!options.map.is_empty()) {
    result.report.entries = {{"a", "b", "renamed"}, {"c", "", "left out"}};
    result.report.notes = {"cast x=int8: matches no leaf"};
  }
  return result;
}

Result<ConvertResult> Materialize(const std::string& view,
                                  const std::string& target,
                                  const ConvertOptions& options) {
  return Convert(view, target, options);
}

Result<ViewResult> View(const std::string& source, const std::string& target,
                        const ViewOptions& options) {
  auto& world = TheWorld();
  world.calls.view = options;
  const auto found = world.checkpoints.find(source);
  if (found == world.checkpoints.end()) {
    return NotFoundError("no checkpoint at " + source + " for " + target);
  }
  ViewResult result;
  result.leaf_count = found->second.leaves.size();
  result.referred_leaf_count = 2;
  result.referred_bytes = 3 << 20;
  result.source_file_count = 1;
  result.copied = {{"a", "compressed with zstd", 5 << 10}};
  result.total_seconds = 0.5;
  return result;
}

// The only built-in recipe here is "demo". Recipe::Parse accepts any text.
struct RecipeRules {
  std::string text;
};
Result<Recipe> Recipe::Named(std::string_view name) {
  if (name != "demo") {
    return NotFoundError("no recipe is called " + std::string(name));
  }
  return Parse("{\"recipe\": 1}");
}
class AlsoFormat {};
std::shared_ptr<const AlsoFormat> AlsoSafetensors(
    uint64_t /*shard_bytes_max*/) {
  return std::make_shared<AlsoFormat>();
}

Result<Recipe> Recipe::Parse(std::string_view json) {
  return Recipe(std::make_shared<RecipeRules>(RecipeRules{std::string(json)}));
}
std::vector<std::string> Recipe::Names() { return {"demo"}; }
std::string_view Recipe::text() const { return rules_->text; }
std::string_view Recipe::about() const { return "one name for another"; }

// compare_test.cc tests these with real checkpoints.
Result<DiffResult> Diff(const Checkpoint&, const Checkpoint&,
                        const DiffOptions&) {
  return UnimplementedError("no diff here");
}
std::vector<size_t> WorstFirst(const DiffResult&) { return {}; }
std::string_view DiffVerdictName(DiffVerdict) { return ""; }
Result<StatsResult> ComputeStats(const Checkpoint&, const StatsOptions&) {
  return UnimplementedError("no stats here");
}
class StatsCache::Impl {};
StatsCache::StatsCache(std::string) {}
StatsCache::~StatsCache() = default;
const std::string& StatsCache::warning() const {
  static const std::string none;
  return none;
}
Status StatsCache::Write() { return Status(); }
std::string StatsCache::IdentityOf(const Checkpoint&) { return ""; }
Result<DriftResult> ComputeDrift(const Checkpoint&, const Checkpoint&,
                                 const DriftOptions&) {
  return UnimplementedError("no drift here");
}
Result<std::vector<LiveSave>> LiveSaves(const std::string& root) {
  if (root != "/ckpt") return std::vector<LiveSave>();
  LiveSave save{"/ckpt/7", "/ckpt/7.orbax-checkpoint-tmp", {}};
  save.ranks.resize(2);
  for (LiveRank& rank : save.ranks) {
    rank.rank_count = 2;
    rank.host = "a";
    rank.pid = 41;
  }
  save.ranks[0].phase = "meet: write";
  save.ranks[0].phase_seconds = 5;
  save.ranks[1].rank = 1;
  save.ranks[1].phase = "write";
  save.ranks[1].phase_seconds = 9;
  save.ranks[1].done_bytes = 1 << 20;
  save.ranks[1].total_bytes = 4 << 20;
  save.ranks[1].bytes_per_second = 1 << 20;
  save.ranks[1].expected_seconds = 3;
  save.ranks[1].lag = "others have waited for it for 5 s";
  return std::vector<LiveSave>{save};
}
Result<ReportResult> MakeReport(const std::string& path,
                                const ReportOptions& options) {
  TheWorld().calls.report = options;
  if (TheWorld().checkpoints.count(path) == 0) {
    return NotFoundError("no checkpoint at " + path);
  }
  ReportResult result;
  result.html = "<!doctype html>";
  result.leaf_count = 3;
  result.damage_count = options.verify ? 1 : 0;
  result.different_count = 2;
  return result;
}
// history_test.cc tests these with real roots.
Result<StepLog> ReadStepLog(const std::string& root, const LogOptions&) {
  return NotFoundError("no steps in " + root);
}
std::string_view StepVerdictName(StepVerdict) { return "skip"; }
Result<BisectResult> BisectByCommand(const std::string& root, std::string_view,
                                     const BisectOptions&) {
  return NotFoundError("no steps in " + root);
}
Result<BisectResult> Bisect(const std::string& root, std::string_view,
                            const BisectOptions&) {
  return NotFoundError("no steps in " + root);
}
Result<CrashProof> ProveCrash(const ProveOptions& options) {
  if (options.command.back() == "fails") {
    return FailedPreconditionError("the command ended with 1");
  }
  CrashProof proof;
  proof.change_count = 40;
  proof.sync_count = 6;
  proof.state_count = 300;
  proof.possible_state_count = 600;
  if (options.command.back() == "sound") return proof;
  proof.bad_state_count = 12;
  CrashRisk risk{.problem = CrashProblem::kDamaged};
  risk.missing = {{"STEP/_METADATA", false, true}, {".", true, false}};
  risk.state_count = 12;
  risk.checkpoint = "1";
  risk.detail = "DATA_LOSS: _METADATA: it is empty";
  risk.moment = "after 17 of 40 changes: rename of 1.tmp to 1";
  risk.loss = "data lost";
  proof.risks = {risk};
  return proof;
}
Result<GoodputResult> SimulateGoodput(const GoodputModel& model,
                                      const GoodputPolicy& policy) {
  if (policy.parity_shards > 9) return InvalidArgumentError("too much parity");
  GoodputResult result;
  result.goodput = model.lost_share;
  result.redone_share = 0.125;
  result.failure_count = 7;
  result.parity_count = 3;
  result.host_bytes = model.state_bytes / 256;
  return result;
}
Result<std::vector<GoodputPlan>> PlanGoodput(const GoodputModel& model,
                                             double host_bytes_max, int64_t) {
  if (host_bytes_max < 2000) return FailedPreconditionError("no plan");
  GoodputPlan plan;
  plan.policy = {5, 100, 14, 2};
  plan.result.goodput = model.state_bytes / host_bytes_max;
  return std::vector<GoodputPlan>{plan, GoodputPlan()};
}
Result<SaveResult> Save(const std::string& path, const Tree&,
                        const SaveOptions&) {
  return NotFoundError(path);
}
std::string_view CrashProblemName(CrashProblem) { return "damaged"; }
Result<std::vector<std::string>> ProveLibraryCommand(const std::string&,
                                                     std::string_view library) {
  if (library == "rubbish") return InvalidArgumentError("no such library");
  return std::vector<std::string>{std::string(library)};
}
Result<std::unique_ptr<Server>> Server::Start(const ServeOptions&) {
  return UnimplementedError("no server here");
}
Result<ConvertResult> Merge(const std::vector<MergeSource>&, const std::string&,
                            const MergeOptions&, const ConvertOptions&) {
  return UnimplementedError("no merge here");
}
Result<RescueResult> Rescue(const std::string&, const std::string&,
                            const RescueOptions&) {
  return UnimplementedError("no rescue here");
}

Result<std::vector<StepInfo>> ListSteps(const std::string& root, CommitMode) {
  const auto found = TheWorld().roots.find(root);
  if (found == TheWorld().roots.end()) {
    return NotFoundError("no steps in " + root);
  }
  return found->second;
}

bool IsRootOfSteps(const std::string& path) {
  return TheWorld().roots.contains(path);
}

Result<std::unique_ptr<Checkpoint>> OpenUnlessRoot(const std::string& path,
                                                   const OpenOptions& options) {
  if (IsRootOfSteps(path)) return std::unique_ptr<Checkpoint>();
  return Open(path, options);
}

Result<std::vector<ScannedStep>> ScanSteps(const std::string& root,
                                           const ScanOptions&) {
  std::vector<ScannedStep> steps;
  for (const StepInfo& step : TheWorld().roots[root]) {
    if (step.committed) steps.push_back({*step.step, step.name, true});
  }
  return steps;
}

// steps_test.cc tests these with real roots.
Result<PrunePlan> PlanPrune(const std::string& root, const PruneOptions&) {
  return NotFoundError("no root " + root);
}
Result<std::vector<std::string>> Prune(const std::string& root,
                                       const PrunePlan&) {
  return NotFoundError("no root " + root);
}
Result<std::string> UndeleteStep(const std::string& root, int64_t) {
  return NotFoundError("no root " + root);
}
Result<EmptiedTrash> EmptyTrash(const std::string& root, bool) {
  return NotFoundError("no root " + root);
}
Result<std::vector<TrashedStep>> ListTrash(const std::string& root) {
  return NotFoundError("no root " + root);
}
Result<DiskUsage> MeasureDiskUsage(const std::string& root) {
  return NotFoundError("no root " + root);
}
Metrics MetricsOfJson(std::string_view) { return {}; }
MetricFn MetricNamed(std::string) { return {}; }

}  // namespace holdfast
