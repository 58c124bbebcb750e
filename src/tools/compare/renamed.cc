#include "tools/compare/renamed.h"

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>

#include "engine/restore/leaf_request.h"
#include "ground/base/status_macros.h"
#include "ground/base/xxh64.h"
#include "ground/tensor/copy.h"
#include "tools/compare/match_leaves.h"
#include "tools/compare/slab_reader.h"

namespace holdfast {
namespace {

// If more pairs than this have the same value (thousands of zero biases, say),
// their names are not compared, because that takes quadratic time.
constexpr size_t kPairsMax = 1 << 16;

// Returns kind, dtype and shape as one string.
std::string SignatureOf(const LeafInfo& leaf) {
  std::string text(ValueKindName(leaf.kind));
  if (leaf.dtype) text += " " + std::string(DTypeName(*leaf.dtype));
  if (HasElements(leaf.kind)) text += " " + ShapeToString(leaf.shape);
  return text;
}

size_t CommonEnds(const std::string& a, const std::string& b) {
  const auto before =
      std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first - a.begin();
  const auto after =
      std::mismatch(a.rbegin(), a.rend(), b.rbegin(), b.rend()).first -
      a.rbegin();
  // The end of a name says more than its beginning: w, bias, scale.
  return static_cast<size_t>(before + 4 * after);
}

struct ScoredPair {
  size_t score = 0;
  size_t a = 0;
  size_t b = 0;
};

std::vector<ScoredPair> PairsOfOneValue(const std::vector<RenameCandidate>& a,
                                        const std::vector<size_t>& in_a,
                                        const std::vector<RenameCandidate>& b,
                                        const std::vector<size_t>& in_b) {
  std::vector<ScoredPair> pairs;
  if (in_a.size() * in_b.size() > kPairsMax) {
    for (size_t i = 0; i < std::min(in_a.size(), in_b.size()); ++i) {
      pairs.push_back({0, in_a[i], in_b[i]});
    }
    return pairs;
  }
  for (const size_t i : in_a) {
    for (const size_t j : in_b) {
      pairs.push_back({CommonEnds(a[i].name, b[j].name), i, j});
    }
  }
  // Best matches first: PairRenamed takes pairs greedily.
  std::stable_sort(pairs.begin(), pairs.end(),
                   [](const ScoredPair& x, const ScoredPair& y) {
                     return x.score > y.score;
                   });
  return pairs;
}

std::map<std::string, std::vector<size_t>> ByValue(
    const std::vector<RenameCandidate>& candidates) {
  std::map<std::string, std::vector<size_t>> by_value;
  for (size_t i = 0; i < candidates.size(); ++i) {
    if (!candidates[i].value.empty()) {
      by_value[candidates[i].value].push_back(i);
    }
  }
  return by_value;
}

uint64_t HashOfSlab(const Slab& slab, DType dtype) {
  const auto count = static_cast<size_t>(slab.element_count());
  Xxh64 hash;
  const uint64_t number = slab.number;
  hash.Update({reinterpret_cast<const char*>(&number), sizeof number});
  if (DTypeBits(dtype) < 8) {
    std::string elements(slab.elements[0], count);
    ClearUnusedBits(dtype, elements.data(), count);
    hash.Update(elements);
  } else {
    hash.Update({slab.elements[0], count * DTypeBytes(dtype)});
  }
  return hash.Digest();
}

// The candidates of one side, with the hashes of their values.
class Candidates {
 public:
  Candidates(const Checkpoint& checkpoint, std::vector<size_t> leaves)
      : checkpoint_(checkpoint) {
    for (const size_t leaf : leaves) {
      list_.push_back({leaf, checkpoint.leaves()[leaf].name, {}});
    }
  }

  Status Hash(const RunOptions& run, Stats& stats) {
    std::vector<uint64_t> sums(list_.size(), 0);
    std::vector<bool> is_failed(list_.size(), false);
    std::mutex mutex;
    SlabWork work;
    work.ignores_chunks = true;  // equal shapes are cut alike
    work.add = [&](const Slab& slab) {
      const uint64_t hash = HashOfSlab(slab, *InfoOf(slab.tensor).dtype);
      const std::lock_guard lock(mutex);
      sums[slab.tensor] += hash;  // the hash covers the slab's number
    };
    work.fail = [&](size_t tensor, const Status&) { is_failed[tensor] = true; };
    std::vector<SlabTensor> tensors(list_.size());
    for (size_t i = 0; i < list_.size(); ++i) {
      if (HasElements(InfoOf(i).kind)) {
        tensors[i].sides = {{&checkpoint_, list_[i].leaf}};
        continue;
      }
      const auto digest = DigestLeaf(checkpoint_, list_[i].leaf);
      is_failed[i] = !digest.ok();
      if (digest.ok()) list_[i].value = *digest;
    }
    HF_RETURN_IF_ERROR(ReadSlabs(tensors, work, run, "compare", stats));
    for (size_t i = 0; i < list_.size(); ++i) {
      std::string& value = list_[i].value;
      value = is_failed[i] ? std::string()
                           : SignatureOf(InfoOf(i)) + value + " " +
                                 std::to_string(sums[i]);
    }
    return Status();
  }

  const std::vector<RenameCandidate>& list() const { return list_; }

 private:
  const LeafInfo& InfoOf(size_t i) const {
    return checkpoint_.leaves()[list_[i].leaf];
  }

  const Checkpoint& checkpoint_;
  std::vector<RenameCandidate> list_;
};

// Returns the leaves that only `mine` has (their verdict is `verdict`) and
// whose signature occurs in `others`.
std::vector<size_t> LeavesOnlyIn(DiffVerdict verdict, const Checkpoint& mine,
                                 const std::vector<LeafDiff>& diffs,
                                 const std::map<std::string, int>& others) {
  std::vector<size_t> leaves;
  for (const LeafDiff& diff : diffs) {
    if (diff.verdict != verdict) continue;
    const size_t leaf = verdict == DiffVerdict::kOnlyInA ? *diff.a : *diff.b;
    const LeafInfo& info = mine.leaves()[leaf];
    const bool has_value = HasElements(info.kind) || HasText(info.kind);
    if (has_value && info.problem.ok() && others.contains(SignatureOf(info))) {
      leaves.push_back(leaf);
    }
  }
  return leaves;
}

std::map<std::string, int> SignaturesOnlyIn(
    DiffVerdict verdict, const Checkpoint& checkpoint,
    const std::vector<LeafDiff>& diffs) {
  std::map<std::string, int> signatures;
  for (const LeafDiff& diff : diffs) {
    if (diff.verdict != verdict) continue;
    const size_t leaf = verdict == DiffVerdict::kOnlyInA ? *diff.a : *diff.b;
    ++signatures[SignatureOf(checkpoint.leaves()[leaf])];
  }
  return signatures;
}

}  // namespace

std::vector<std::pair<size_t, size_t>> PairRenamed(
    const std::vector<RenameCandidate>& a,
    const std::vector<RenameCandidate>& b) {
  const auto a_by_value = ByValue(a), b_by_value = ByValue(b);
  std::vector<bool> a_taken(a.size()), b_taken(b.size());
  std::vector<std::pair<size_t, size_t>> pairs;
  for (const auto& [value, in_a] : a_by_value) {
    const auto in_b = b_by_value.find(value);
    if (in_b == b_by_value.end()) continue;
    for (const ScoredPair& pair : PairsOfOneValue(a, in_a, b, in_b->second)) {
      if (a_taken[pair.a] || b_taken[pair.b]) continue;
      a_taken[pair.a] = b_taken[pair.b] = true;
      pairs.emplace_back(pair.a, pair.b);
    }
  }
  return pairs;
}

Status FindRenamed(const Checkpoint& a, const Checkpoint& b,
                   const RunOptions& run, std::vector<LeafDiff>& diffs,
                   Stats& stats) {
  const auto in_a = SignaturesOnlyIn(DiffVerdict::kOnlyInA, a, diffs);
  const auto in_b = SignaturesOnlyIn(DiffVerdict::kOnlyInB, b, diffs);
  Candidates of_a(a, LeavesOnlyIn(DiffVerdict::kOnlyInA, a, diffs, in_b));
  Candidates of_b(b, LeavesOnlyIn(DiffVerdict::kOnlyInB, b, diffs, in_a));
  if (of_a.list().empty() || of_b.list().empty()) return Status();
  HF_RETURN_IF_ERROR(of_a.Hash(run, stats));
  HF_RETURN_IF_ERROR(of_b.Hash(run, stats));
  std::map<size_t, size_t> b_of_a, a_of_b;
  for (const auto& [i, j] : PairRenamed(of_a.list(), of_b.list())) {
    b_of_a[of_a.list()[i].leaf] = of_b.list()[j].leaf;
    a_of_b[of_b.list()[j].leaf] = of_a.list()[i].leaf;
  }
  for (LeafDiff& diff : diffs) {
    const bool only_a = diff.verdict == DiffVerdict::kOnlyInA;
    if (!only_a && diff.verdict != DiffVerdict::kOnlyInB) continue;
    const auto& partners = only_a ? b_of_a : a_of_b;
    const auto found = partners.find(only_a ? *diff.a : *diff.b);
    if (found != partners.end()) diff.renamed = found->second;
  }
  return Status();
}

}  // namespace holdfast
