#include "cli/leaf_plan.h"

#include <algorithm>
#include <utility>

#include "cli/select.h"
#include "holdfast/tools/glob.h"

namespace holdfast::cli {
namespace {

using StoredShardings = std::map<std::string, Result<Sharding>>;

// Parses a text of `_sharding`, each distinct text only once.
const Result<Sharding>& Stored(const std::string& json,
                               StoredShardings* cache) {
  const auto found = cache->find(json);
  if (found != cache->end()) return found->second;
  return cache->emplace(json, ShardingFromJson(json)).first->second;
}

bool IsOfOneProcess(const LeafInfo& leaf) {
  return leaf.kind == ValueKind::kScalar || leaf.value_type == "np.ndarray" ||
         leaf.value_type == "scalar";
}

const SpecRule* FindRule(const LeafInfo& leaf,
                         const std::vector<SpecRule>& rules) {
  const auto matches = [&](const SpecRule& rule) {
    if (rule.pattern) return GlobSelects(*rule.pattern, leaf.name);
    return leaf.kind == ValueKind::kArray &&
           rule.spec.size() <= leaf.shape.size();
  };
  const auto found = std::find_if(rules.rbegin(), rules.rend(), matches);
  return found == rules.rend() ? nullptr : &*found;
}

bool HasAxes(const Mesh& mesh, const PartitionSpec& spec) {
  for (const auto& entry : spec) {
    for (const std::string& axis : entry) {
      if (std::find(mesh.axis_names.begin(), mesh.axis_names.end(), axis) ==
          mesh.axis_names.end()) {
        return false;
      }
    }
  }
  return true;
}

std::optional<Sharding> OnMesh(const LeafInfo& leaf, const Mesh& mesh,
                               const std::vector<SpecRule>& rules,
                               StoredShardings* cache) {
  if (const SpecRule* rule = FindRule(leaf, rules)) {
    return NamedSharding{mesh, rule->spec};
  }
  if (!leaf.sharding_json.empty()) {
    const Result<Sharding>& stored = Stored(leaf.sharding_json, cache);
    const auto* named =
        stored.ok() ? std::get_if<NamedSharding>(&*stored) : nullptr;
    if (named != nullptr && HasAxes(mesh, named->spec)) {
      return NamedSharding{mesh, named->spec};
    }
  }
  if (IsOfOneProcess(leaf)) return std::nullopt;
  return NamedSharding{mesh, {}};
}

// Returns the sharding of a leaf, or nullopt if it is not spread over devices.
Result<std::optional<Sharding>> ChooseSharding(const LeafInfo& leaf,
                                               const LayoutRequest& request,
                                               StoredShardings* cache) {
  using Choice = std::optional<Sharding>;
  if (!request.mesh) {
    if (leaf.sharding_json.empty()) return Choice();
    const Result<Sharding>& stored = Stored(leaf.sharding_json, cache);
    if (!stored.ok()) return stored.status();
    return Choice(*stored);
  }
  return Choice(OnMesh(leaf, *request.mesh, request.rules, cache));
}

// Returns the leaf's chunk shape. A value that is not stored in chunk files
// counts as one chunk.
Shape ChunkShapeOf(const LeafInfo& leaf) {
  Shape shape = leaf.chunk_shape;
  if (shape.size() != leaf.shape.size()) shape = leaf.shape;
  for (int64_t& extent : shape) extent = std::max<int64_t>(extent, 1);
  return shape;
}

RankLoad LoadOf(const LeafInfo& leaf, const std::vector<DeviceShard>& boxes) {
  const uint64_t element_bytes = DTypeBytes(*leaf.dtype);
  const ChunkNeed need = NeedOfBoxes(leaf.shape, ChunkShapeOf(leaf), boxes);
  RankLoad load;
  load.need_bytes = need.need_elements * element_bytes;
  load.read_bytes = need.read_elements * element_bytes;
  load.chunk_count = need.chunk_count;
  return load;
}

}  // namespace

std::optional<Sharding> ShardingOnMesh(const LeafInfo& leaf, const Mesh& mesh,
                                       const std::vector<SpecRule>& rules) {
  StoredShardings cache;
  return OnMesh(leaf, mesh, rules, &cache);
}

bool IsPlannable(const LeafInfo& leaf) {
  return leaf.dtype.has_value() &&
         (leaf.kind == ValueKind::kArray || leaf.kind == ValueKind::kScalar);
}

void RankLoad::Add(const RankLoad& other) {
  write_bytes += other.write_bytes;
  need_bytes += other.need_bytes;
  read_bytes += other.read_bytes;
  chunk_count += other.chunk_count;
}

// Chooses a layout for each leaf, and returns the distinct layouts.
std::vector<Sharding> LeafPlanner::ChooseLayouts(const LayoutRequest& request) {
  StoredShardings cache;
  std::vector<Sharding> shardings;
  std::map<std::pair<std::string, PartitionSpec>, size_t> known;
  for (const LeafInfo* leaf : leaves_) {
    const auto chosen = ChooseSharding(*leaf, request, &cache);
    if (!chosen.ok()) {
      planner_of_leaf_.push_back(chosen.status());
      continue;
    }
    if (!*chosen) {
      planner_of_leaf_.push_back(std::optional<size_t>());
      continue;
    }
    const auto* named = std::get_if<NamedSharding>(&**chosen);
    const PartitionSpec spec = named == nullptr ? PartitionSpec() : named->spec;
    const auto [at, is_new] = known.emplace(
        std::pair(request.mesh ? std::string() : leaf->sharding_json, spec),
        shardings.size());
    if (is_new) {
      shardings.push_back(**chosen);
      specs_.push_back(spec);
    }
    planner_of_leaf_.push_back(std::optional<size_t>(at->second));
  }
  return shardings;
}

Status LeafPlanner::ChooseProcesses(std::vector<Sharding> shardings,
                                    const LayoutRequest& request) {
  // Count devices that no leaf uses, too.
  if (request.mesh) shardings.push_back(NamedSharding{*request.mesh, {}});
  const auto all_on_one = EvenProcesses(shardings, 1);
  if (!all_on_one.ok()) return all_on_one.status();
  device_count_ = static_cast<int64_t>(all_on_one->rank_by_device.size());
  process_count_ = request.process_count > 0
                       ? request.process_count
                       : std::max<int64_t>(device_count_, 1);
  const auto processes = EvenProcesses(shardings, process_count_);
  if (!processes.ok()) return processes.status();
  processes_ = *processes;
  if (request.rank && *request.rank >= process_count_) {
    return InvalidArgumentError("--rank " + std::to_string(*request.rank) +
                                ": there are " +
                                std::to_string(process_count_) + " processes");
  }
  return Status();
}

Result<LeafPlanner> LeafPlanner::Make(std::vector<const LeafInfo*> leaves,
                                      const LayoutRequest& request) {
  LeafPlanner planner;
  planner.leaves_ = std::move(leaves);
  planner.rank_ = request.rank;
  const std::vector<Sharding> shardings = planner.ChooseLayouts(request);
  const Status chosen = planner.ChooseProcesses(shardings, request);
  if (!chosen.ok()) return chosen;
  for (const Sharding& sharding : shardings) {
    planner.planners_.push_back(
        request.rank
            ? ShardPlanner::OfRank(sharding, planner.processes_, *request.rank)
            : ShardPlanner::OfAll(sharding));
  }
  return planner;
}

void LeafPlanner::PlanUnspread(const LeafInfo& leaf, PlannedLeaf* plan) const {
  plan->layout.shard_shape = plan->layout.write_shape = leaf.shape;
  RankLoad load =
      LoadOf(leaf, {{0, 0, Shape(leaf.shape.size(), 0), leaf.shape}});
  for (int64_t rank = 0; rank < process_count_; ++rank) {
    if (!IsAskedFor(rank)) continue;
    load.write_bytes = rank == 0 ? load.need_bytes : 0;
    plan->loads[rank] = load;
  }
}

Status LeafPlanner::PlanSpread(const LeafInfo& leaf,
                               const ShardPlanner& planner,
                               PlannedLeaf* plan) const {
  const int64_t element_bytes = static_cast<int64_t>(DTypeBytes(*leaf.dtype));
  const auto layout = planner.Layout(leaf.shape, element_bytes, {});
  if (!layout.ok()) return layout.status();
  const auto shares = planner.Shares(leaf.shape, *layout);
  if (!shares.ok()) return shares.status();
  plan->layout = *layout;
  const uint64_t write_bytes =
      ElementCount(layout->write_shape) * element_bytes;
  std::map<int64_t, std::vector<DeviceShard>> boxes;
  for (const DeviceShare& share : *shares) {
    const auto rank = RankOfDevice(processes_, share.shard.device_id);
    if (!rank.ok()) return rank.status();
    plan->devices.push_back({*rank, share});
    boxes[*rank].push_back(share.shard);
    if (share.write_origin) plan->loads[*rank].write_bytes += write_bytes;
  }
  for (const auto& [rank, held] : boxes) {
    plan->loads[rank].Add(LoadOf(leaf, held));
  }
  return Status();
}

PlannedLeaf LeafPlanner::Plan(size_t i) const {
  PlannedLeaf plan;
  const LeafInfo& leaf = *leaves_[i];
  const Result<std::optional<size_t>>& at = planner_of_leaf_[i];
  if (!at.ok()) {
    plan.problem = at.status();
  } else if (!*at) {
    PlanUnspread(leaf, &plan);
  } else {
    plan.is_spread = true;
    plan.spec = specs_[**at];
    const Result<ShardPlanner>& planner = planners_[**at];
    plan.problem =
        planner.ok() ? PlanSpread(leaf, *planner, &plan) : planner.status();
  }
  return plan;
}

}  // namespace holdfast::cli
