#include "holdfast/tools/fingerprint.h"

#include <algorithm>
#include <map>
#include <utility>

#include "ground/base/coding.h"
#include "ground/base/no_throw.h"
#include "ground/base/sha256.h"
#include "ground/base/status_macros.h"
#include "ground/base/string_coding.h"
#include "ground/fingerprint/parts.h"
#include "ground/group/rank_list.h"
#include "ground/run/run.h"
#include "ground/tensor/box.h"
#include "ground/tensor/box_index.h"
#include "ground/tree/flatten.h"

namespace holdfast {
namespace {

// Identifies what a replica is a copy of. Replicas with equal keys are
// compared.
struct ReplicaKey {
  std::string tensor;
  Shape origin;
  Shape shape;
  bool is_whole = false;

  auto operator<=>(const ReplicaKey&) const = default;
};

Box BoxOfReplica(const Replica& replica) {
  const Shape zeros(replica.view.shape.size(), 0);
  return {replica.origin.empty() ? zeros : replica.origin, replica.view.shape};
}

Status CheckReplica(const Replica& replica) {
  const Box box = BoxOfReplica(replica);
  const Box all = BoxOf(replica.tensor_shape);
  bool is_inside = box.origin.size() == all.shape.size() &&
                   box.shape.size() == all.shape.size() &&
                   replica.view.strides.size() == all.shape.size();
  for (size_t i = 0; is_inside && i < all.shape.size(); ++i) {
    is_inside = box.origin[i] >= 0 && box.shape[i] >= 0 &&
                box.shape[i] <= all.shape[i] - box.origin[i];
  }
  if (is_inside) return Status();
  return InvalidArgumentError("replica of tensor " + replica.tensor + ": box " +
                              BoxToString(box) + " is not inside shape " +
                              ShapeToString(replica.tensor_shape));
}

void PutShape(std::string& out, const Shape& shape) {
  PutVarint(out, shape.size());
  for (const int64_t extent : shape) {
    PutVarint(out, static_cast<uint64_t>(extent));
  }
}

bool TakeShape(Cursor& in, Shape& shape) {
  uint64_t rank = 0;
  if (!ReadVarint64(in, rank) || rank > kRankMax) return false;
  for (uint64_t i = 0; i < rank; ++i) {
    uint64_t extent = 0;
    if (!ReadVarint64(in, extent)) return false;
    shape.push_back(static_cast<int64_t>(extent));
  }
  return true;
}

std::string TextOfKeys(const std::vector<ReplicaKey>& keys) {
  std::string text;
  for (const ReplicaKey& key : keys) {
    PutString(text, key.tensor);
    PutShape(text, key.origin);
    PutShape(text, key.shape);
    text += key.is_whole ? '\1' : '\0';
  }
  return text;
}

Result<std::vector<ReplicaKey>> KeysOfText(std::string_view text) {
  std::vector<ReplicaKey> keys;
  Cursor in(text);
  while (in.remaining() > 0) {
    ReplicaKey key;
    uint8_t is_whole = 0;
    if (!ReadString(in, key.tensor) || !TakeShape(in, key.origin) ||
        !TakeShape(in, key.shape) || !in.ReadByte(is_whole)) {
      return InternalError("compare replicas: a rank sent no list of boxes");
    }
    key.is_whole = is_whole != 0;
    keys.push_back(std::move(key));
  }
  return keys;
}

// The replicas of one rank, in the order in which the rank lists them.
struct RankReplicas {
  std::vector<ReplicaKey> keys;
  std::string sums;  // 16 bytes per replica
};

Result<RankReplicas> SumReplicas(const std::vector<Replica>& replicas,
                                 const RunOptions& options) {
  std::vector<FingerprintPart> parts;
  RankReplicas mine;
  for (const Replica& replica : replicas) {
    HF_RETURN_IF_ERROR(CheckReplica(replica));
    Box box = BoxOfReplica(replica);
    const bool is_whole = box.shape == replica.tensor_shape;
    parts.push_back({replica.view, box.origin, replica.tensor_shape});
    mine.keys.push_back({replica.tensor, std::move(box.origin),
                         std::move(box.shape), is_whole});
  }
  Run run(options);
  HF_ASSIGN_OR_RETURN(const std::vector<FingerprintSum> sums,
                      SumsOf(parts, run.executor(), run.cancel()));
  for (size_t i = 0; i < sums.size(); ++i) {
    FingerprintSum sum = sums[i];
    sum += TagOf(replicas[i].view.dtype, replicas[i].tensor_shape);
    PutU64Little(mine.sums, sum.low);
    PutU64Little(mine.sums, sum.high);
  }
  return mine;
}

// Returns each rank's replicas. The ranks exchange their lists of boxes only if
// the lists' hashes differ.
Result<std::vector<RankReplicas>> GatherReplicas(
    ProcessGroup& group, const Result<RankReplicas>& mine) {
  const Meeting meeting{"compare replicas", ""};
  HF_RETURN_IF_ERROR(group.Agree(meeting, mine.status()));
  const std::string keys = TextOfKeys(mine->keys);
  Sha256 hash;
  hash.Update(keys);
  HF_ASSIGN_OR_RETURN(const std::vector<std::string> values,
                      group.AllGather(meeting, hash.HexDigest() + mine->sums));
  constexpr size_t kHashBytes = 64;
  const auto hash_of = [&](const std::string& value) {
    return std::string_view(value).substr(0, kHashBytes);
  };
  const bool are_alike =
      std::all_of(values.begin(), values.end(), [&](const std::string& value) {
        return hash_of(value) == hash_of(values[0]);
      });
  std::vector<std::string> lists(values.size(), keys);
  if (!are_alike) {
    HF_ASSIGN_OR_RETURN(lists, group.AllGather(meeting, keys));
  }
  std::vector<RankReplicas> ranks(values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    HF_ASSIGN_OR_RETURN(ranks[i].keys, KeysOfText(lists[i]));
    ranks[i].sums = values[i].substr(std::min(kHashBytes, values[i].size()));
    if (ranks[i].sums.size() == 16 * ranks[i].keys.size()) continue;
    return InternalError("compare replicas: rank " + std::to_string(i) +
                         " sent fingerprints of other boxes than it listed");
  }
  return ranks;
}

Divergence DivergenceOf(
    const ReplicaKey& key,
    std::map<std::string_view, std::vector<ReplicaHolder>>& by_sum) {
  Divergence divergence{key.tensor, key.origin, key.shape, key.is_whole, {}};
  for (auto& [sum, holders] : by_sum) {
    divergence.groups.push_back(std::move(holders));
  }
  std::sort(divergence.groups.begin(), divergence.groups.end(),
            [](const auto& a, const auto& b) {
              if (a.size() != b.size()) return a.size() > b.size();
              return std::pair(a[0].rank, a[0].copy) <
                     std::pair(b[0].rank, b[0].copy);
            });
  return divergence;
}

ReplicaReport ReportOf(const std::vector<RankReplicas>& ranks) {
  struct Held {
    std::map<std::string_view, std::vector<ReplicaHolder>> by_sum;
    uint64_t count = 0;
    ReplicaHolder last{-1, 0};
  };
  std::map<ReplicaKey, Held> boxes;
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    for (size_t i = 0; i < ranks[rank].keys.size(); ++i) {
      Held& held = boxes[ranks[rank].keys[i]];
      const bool is_next = held.last.rank == static_cast<int64_t>(rank);
      held.last = {static_cast<int64_t>(rank),
                   is_next ? held.last.copy + 1 : 0};
      const auto sum = std::string_view(ranks[rank].sums).substr(16 * i, 16);
      held.by_sum[sum].push_back(held.last);
      ++held.count;
    }
  }
  ReplicaReport report;
  report.box_count = boxes.size();
  for (auto& [key, held] : boxes) {
    report.replica_count += held.count;
    if (held.count > 1) report.compared_count += held.count;
    if (held.by_sum.size() > 1) {
      report.divergences.push_back(DivergenceOf(key, held.by_sum));
    }
  }
  return report;
}

// Returns "ranks 0, 2", or with copies "rank 0 (copies 1, 3), rank 2".
std::string HoldersText(const std::vector<ReplicaHolder>& holders,
                        bool has_copies) {
  std::vector<int64_t> ranks;
  if (!has_copies) {
    for (const ReplicaHolder& holder : holders) ranks.push_back(holder.rank);
    return RankList(ranks);
  }
  std::string text;
  for (size_t i = 0; i < holders.size(); ++i) {
    const bool is_same = i > 0 && holders[i].rank == holders[i - 1].rank;
    if (!is_same) {
      text += text.empty() ? "" : "), ";
      text += "rank " + std::to_string(holders[i].rank) + " (copy ";
    } else {
      text += ", ";
    }
    text += std::to_string(holders[i].copy);
  }
  return text + ")";
}

// Returns the replicas that a leaf holds in memory; empty unless the leaf has
// elements.
std::vector<Replica> ReplicasOfLeaf(const std::string& name, const Tree& leaf) {
  if (!leaf.is_leaf()) return {};
  if (leaf.leaf_kind() == LeafKind::kScalar) {
    const Scalar& scalar = leaf.scalar();
    return {{name, {}, {}, {scalar.dtype, scalar.bytes.data(), {}, {}}}};
  }
  if (leaf.leaf_kind() != LeafKind::kArray || leaf.reader() != nullptr) {
    return {};
  }
  if (!leaf.is_sharded()) {
    return {{name, leaf.array_shape(), {}, leaf.array().view()}};
  }
  std::vector<Replica> replicas;
  for (const ArrayShard& shard : leaf.shards()) {
    if (shard.reader != nullptr) continue;
    replicas.push_back(
        {name, leaf.array_shape(), shard.origin, shard.array.view()});
  }
  return replicas;
}

Result<std::vector<Replica>> ReplicasOf(const Tree& tree) {
  HF_ASSIGN_OR_RETURN(const std::vector<FlatLeaf> leaves, Flatten(tree));
  HF_RETURN_IF_ERROR(CheckParamNames(leaves));
  std::vector<Replica> replicas;
  for (const FlatLeaf& flat : leaves) {
    for (Replica& replica : ReplicasOfLeaf(ParamName(flat.path), *flat.leaf)) {
      replicas.push_back(std::move(replica));
    }
  }
  return replicas;
}

Status NotHere(const std::string& name) {
  return InvalidArgumentError("leaf " + name +
                              ": its elements are not in host memory");
}

Status CheckWhole(const std::string& name, const Tree& leaf) {
  if (leaf.leaf_kind() != LeafKind::kArray) return Status();
  if (leaf.reader() != nullptr) return NotHere(name);
  if (!leaf.is_sharded()) return Status();
  std::vector<Box> boxes;
  for (const ArrayShard& shard : leaf.shards()) {
    if (shard.reader != nullptr) return NotHere(name);
    boxes.push_back({shard.origin, shard.array.shape()});
  }
  return BoxIndex(std::move(boxes))
      .CheckCover(leaf.array_shape())
      .WithContext("leaf " + name);
}

Result<std::map<std::string, std::string>> SumTree(const Tree& tree,
                                                   const RunOptions& options) {
  HF_ASSIGN_OR_RETURN(const std::vector<FlatLeaf> leaves, Flatten(tree));
  HF_RETURN_IF_ERROR(CheckParamNames(leaves));
  std::vector<FingerprintPart> parts;
  std::vector<FingerprintSum*> owners;  // parallel to parts
  std::map<std::string, FingerprintSum> sums;
  for (const FlatLeaf& flat : leaves) {
    const std::string name = ParamName(flat.path);
    if (!flat.leaf->is_leaf()) continue;
    HF_RETURN_IF_ERROR(CheckWhole(name, *flat.leaf));
    for (const Replica& part : ReplicasOfLeaf(name, *flat.leaf)) {
      HF_RETURN_IF_ERROR(CheckReplica(part));
      const auto [at, is_new] =
          sums.try_emplace(name, TagOf(part.view.dtype, part.tensor_shape));
      parts.push_back(
          {part.view, BoxOfReplica(part).origin, part.tensor_shape});
      owners.push_back(&at->second);
    }
  }
  Run run(options);
  HF_ASSIGN_OR_RETURN(const std::vector<FingerprintSum> found,
                      SumsOf(parts, run.executor(), run.cancel()));
  for (size_t i = 0; i < found.size(); ++i) *owners[i] += found[i];
  std::map<std::string, std::string> texts;
  for (const auto& [name, sum] : sums) texts[name] = FingerprintHex(sum);
  return texts;
}

// Like the public function, but `replicas` may also be an error, if the tree
// was refused.
Result<ReplicaReport> Compare(ProcessGroup* group,
                              const Result<std::vector<Replica>>& replicas,
                              const RunOptions& run) {
  Result<RankReplicas> mine = CatchBadAlloc([&]() -> Result<RankReplicas> {
    HF_RETURN_IF_ERROR(replicas.status());
    return SumReplicas(*replicas, run);
  });
  if (group == nullptr) {
    HF_RETURN_IF_ERROR(mine.status());
    std::vector<RankReplicas> alone;
    alone.push_back(*std::move(mine));
    return ReportOf(alone);
  }
  HF_ASSIGN_OR_RETURN(const std::vector<RankReplicas> ranks,
                      GatherReplicas(*group, mine));
  return ReportOf(ranks);
}

}  // namespace

Result<std::string> FingerprintOf(const ConstArrayView& tensor,
                                  const RunOptions& options) {
  return CatchBadAlloc([&]() -> Result<std::string> {
    Run run(options);
    HF_ASSIGN_OR_RETURN(
        std::vector<FingerprintSum> sums,
        SumsOf({{tensor, {}, tensor.shape}}, run.executor(), run.cancel()));
    return FingerprintHex(sums[0] += TagOf(tensor.dtype, tensor.shape));
  });
}

std::string DivergenceText(const Divergence& divergence) {
  const auto& groups = divergence.groups;
  std::string text = "tensor " + divergence.tensor;
  if (!divergence.is_whole) {
    text += BoxToString({divergence.origin, divergence.shape});
  }
  text += ": ";
  bool has_copies = false;
  for (const auto& group : groups) {
    for (const ReplicaHolder& holder : group) has_copies |= holder.copy > 0;
  }
  if (divergence.has_majority()) {
    std::string others;
    for (size_t i = 1; i < groups.size(); ++i) {
      others += (i > 1 ? " and " : "") + HoldersText(groups[i], has_copies);
    }
    const bool is_one = groups.size() == 2 && groups[1].size() == 1;
    return text + others + (is_one ? " differs" : " differ") + " from " +
           HoldersText(groups[0], has_copies);
  }
  for (size_t i = 0; i < groups.size(); ++i) {
    text += (i > 0 ? " and " : "") + HoldersText(groups[i], has_copies);
  }
  return text + " differ, and none has a majority";
}

Result<std::map<std::string, std::string>> FingerprintsOf(
    const Tree& tree, const RunOptions& run) {
  return CatchBadAlloc([&] { return SumTree(tree, run); });
}

Status ReplicaReport::Check() const {
  constexpr size_t kShownMax = 10;
  if (divergences.empty()) return Status();
  std::string text = "replicas differ";
  const size_t shown = std::min(divergences.size(), kShownMax);
  for (size_t i = 0; i < shown; ++i) {
    text += (i > 0 ? "; " : ": ") + DivergenceText(divergences[i]);
  }
  if (shown < divergences.size()) {
    text += "; and " + std::to_string(divergences.size() - shown) + " more";
  }
  return DataLossError(text);
}

Result<ReplicaReport> CompareReplicas(ProcessGroup* group,
                                      const std::vector<Replica>& replicas,
                                      const RunOptions& run) {
  return InGroupCall(group, [&] {
    return CatchBadAlloc([&] { return Compare(group, replicas, run); });
  });
}

Result<ReplicaReport> CompareReplicas(ProcessGroup* group, const Tree& tree,
                                      const RunOptions& run) {
  return InGroupCall(group, [&] {
    return CatchBadAlloc([&] { return Compare(group, ReplicasOf(tree), run); });
  });
}

}  // namespace holdfast
