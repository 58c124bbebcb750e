#include "holdfast/tools/diff.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <mutex>
#include <numeric>
#include <utility>

#include "engine/restore/leaf_request.h"
#include "ground/base/no_throw.h"
#include "ground/base/status_macros.h"
#include "tools/compare/element_diff.h"
#include "tools/compare/match_leaves.h"
#include "tools/compare/renamed.h"
#include "tools/compare/slab_reader.h"

namespace holdfast {
namespace {

Scalar ScalarOf(DType dtype, const std::array<char, 16>& bytes) {
  Scalar scalar;
  scalar.dtype = dtype;
  scalar.is_python = false;
  scalar.bytes = bytes;
  return scalar;
}

class Differ {
 public:
  Differ(const Checkpoint& a, const Checkpoint& b, const DiffOptions& options)
      : a_(a), b_(b), options_(options) {}

  Result<DiffResult> Run() {
    Stopwatch watch;
    HF_RETURN_IF_ERROR(CheckOptions());
    HF_ASSIGN_OR_RETURN(result_.leaves,
                        MatchLeaves(a_.leaves(), b_.leaves(), options_));
    if (!options_.only_structure) {
      HF_RETURN_IF_ERROR(options_.by_fingerprint ? CompareFingerprints()
                                                 : CompareTensors());
      HF_RETURN_IF_ERROR(CompareTexts());
      if (options_.find_renamed && !options_.by_fingerprint) {
        HF_RETURN_IF_ERROR(
            FindRenamed(a_, b_, QuietRun(), result_.leaves, result_.stats));
      }
    }
    for (const LeafDiff& leaf : result_.leaves) Count(leaf);
    result_.stats.total_seconds = watch.Lap();
    return std::move(result_);
  }

 private:
  Status CheckOptions() const {
    for (const double tolerance : {options_.atol, options_.rtol}) {
      if (std::isfinite(tolerance) && tolerance >= 0) continue;
      return InvalidArgumentError("diff: a tolerance of " +
                                  std::to_string(tolerance) +
                                  " (want a number >= 0)");
    }
    const bool wants_less = options_.atol > 0 || options_.rtol > 0 ||
                            options_.ignore_dtype || !options_.equal_nan;
    if (options_.by_fingerprint && wants_less) {
      return InvalidArgumentError(
          "diff: fingerprints are of dtype and bits; compare values for a "
          "tolerance, for other dtypes or for NaNs that differ");
    }
    return Status();
  }

  // Returns the run options without progress, because the progress bar is
  // already full.
  RunOptions QuietRun() const {
    RunOptions run = options_.run;
    run.progress = {};
    return run;
  }

  bool AreComparable(const LeafDiff& leaf) const {
    if (!leaf.a || !leaf.b || !leaf.problem.ok()) return false;
    const LeafInfo& a = a_.leaves()[*leaf.a];
    const LeafInfo& b = b_.leaves()[*leaf.b];
    return HasElements(a.kind) && HasElements(b.kind) && a.shape == b.shape &&
           a.dtype && b.dtype;
  }

  Status CompareTensors() {
    const size_t count = result_.leaves.size();
    std::vector<SlabTensor> tensors(count);
    std::vector<ElementDiff> diffs(count);
    for (size_t i = 0; i < count; ++i) {
      const LeafDiff& leaf = result_.leaves[i];
      if (!AreComparable(leaf)) continue;
      tensors[i].sides = {{&a_, *leaf.a}, {&b_, *leaf.b}};
    }
    const Closeness closeness{options_.atol, options_.rtol, options_.equal_nan};
    std::mutex mutex;
    SlabWork work;
    work.add = [&](const Slab& slab) {
      const LeafDiff& leaf = result_.leaves[slab.tensor];
      const LeafInfo& a = a_.leaves()[*leaf.a];
      const LeafInfo& b = b_.leaves()[*leaf.b];
      ElementDiff diff = CompareElements(
          *a.dtype, slab.elements[0], *b.dtype, slab.elements[1],
          static_cast<size_t>(slab.element_count()), closeness);
      for (FoundElement* found : {&diff.first_different, &diff.first_bits}) {
        if (!found->exists()) continue;
        found->position = FlatIndex(a.shape, slab.box, found->position);
      }
      const std::lock_guard lock(mutex);
      diffs[slab.tensor].Merge(diff);
    };
    work.fail = [&](size_t tensor, const Status& status) {
      result_.leaves[tensor].problem = status;
    };
    HF_RETURN_IF_ERROR(
        ReadSlabs(tensors, work, options_.run, "compare", result_.stats));
    for (size_t i = 0; i < count; ++i) {
      if (!tensors[i].sides.empty()) Judge(diffs[i], result_.leaves[i]);
    }
    return Status();
  }

  // Returns ok if the leaf has a fingerprint.
  static Status CheckHasFingerprint(const Checkpoint& checkpoint, size_t leaf) {
    const LeafInfo& info = checkpoint.leaves()[leaf];
    if (!info.fingerprint.empty()) return Status();
    return FailedPreconditionError(
        checkpoint.info().path + ": leaf " + info.name +
        " has no fingerprint; compare values, or save with fingerprints");
  }

  Status CompareFingerprints() {
    for (LeafDiff& leaf : result_.leaves) {
      if (leaf.verdict != DiffVerdict::kSame || !AreComparable(leaf)) continue;
      HF_RETURN_IF_ERROR(CheckHasFingerprint(a_, *leaf.a));
      HF_RETURN_IF_ERROR(CheckHasFingerprint(b_, *leaf.b));
      const LeafInfo& a = a_.leaves()[*leaf.a];
      const LeafInfo& b = b_.leaves()[*leaf.b];
      if (a.dtype != b.dtype) {  // because a rule of the map casts it
        return FailedPreconditionError(
            "diff: leaf " + a.name +
            " is cast, which no fingerprint can show; compare values");
      }
      if (a.fingerprint != b.fingerprint) leaf.verdict = DiffVerdict::kBits;
    }
    return Status();
  }

  void Judge(const ElementDiff& diff, LeafDiff& leaf) const {
    const LeafInfo& a = a_.leaves()[*leaf.a];
    const LeafInfo& b = b_.leaves()[*leaf.b];
    if (!leaf.problem.ok()) {
      if (leaf.verdict == DiffVerdict::kSame) {
        leaf.verdict = DiffVerdict::kUnreadable;
      }
      return;
    }
    leaf.element_count = diff.element_count;
    leaf.different_count = diff.different_count;
    leaf.beyond_count = diff.beyond_count;
    leaf.nan_mismatch_count = diff.nan_mismatch_count;
    leaf.bits_only_count = diff.bits_only_count;
    leaf.max_abs_error = diff.max_abs_error;
    leaf.max_rel_error = diff.max_rel_error;
    if (a.dtype == b.dtype && DTypeKindOf(*a.dtype) < DTypeKind::kFloat) {
      leaf.max_abs_error_exact = diff.max_abs_error_exact;
    }
    const FoundElement& first =
        diff.first_different.exists() ? diff.first_different : diff.first_bits;
    if (first.exists()) {
      leaf.first_index = IndexOf(a.shape, first.position);
      leaf.first_a = ScalarOf(*a.dtype, first.a);
      leaf.first_b = ScalarOf(*b.dtype, first.b);
    }
    if (leaf.verdict != DiffVerdict::kSame) return;
    if (leaf.beyond_count > 0) {
      leaf.verdict = DiffVerdict::kValues;
    } else if (options_.equal_bits && leaf.bits_only_count > 0) {
      leaf.verdict = DiffVerdict::kBits;
    }
  }

  Status CompareTexts() {
    for (LeafDiff& leaf : result_.leaves) {
      if (leaf.verdict != DiffVerdict::kSame || !leaf.a || !leaf.b) continue;
      if (!HasText(a_.leaves()[*leaf.a].kind)) continue;
      if (options_.run.cancel != nullptr && options_.run.cancel->load()) {
        return CancelledError("the operation was cancelled");
      }
      leaf.problem = CompareText(leaf);
      if (!leaf.problem.ok()) leaf.verdict = DiffVerdict::kUnreadable;
    }
    return Status();
  }

  // Compares digests first: equal objects may be stored as different texts.
  Status CompareText(LeafDiff& leaf) const {
    HF_ASSIGN_OR_RETURN(const std::string digest_a, DigestLeaf(a_, *leaf.a));
    HF_ASSIGN_OR_RETURN(const std::string digest_b, DigestLeaf(b_, *leaf.b));
    if (digest_a == digest_b) return Status();
    leaf.verdict = DiffVerdict::kValues;
    HF_ASSIGN_OR_RETURN(const std::string a, a_.ReadText(*leaf.a));
    HF_ASSIGN_OR_RETURN(const std::string b, b_.ReadText(*leaf.b));
    const auto first =
        std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first;
    leaf.first_byte = static_cast<uint64_t>(first - a.begin());
    return Status();
  }

  void Count(const LeafDiff& leaf) {
    switch (leaf.verdict) {
      case DiffVerdict::kSame:
        ++result_.same_count;
        break;
      case DiffVerdict::kOnlyInA:
        ++result_.only_in_a_count;
        break;
      case DiffVerdict::kOnlyInB:
        ++result_.only_in_b_count;
        break;
      case DiffVerdict::kUnreadable:
        ++result_.unreadable_count;
        break;
      default:
        ++result_.different_count;
    }
    result_.max_abs_error = std::max(result_.max_abs_error, leaf.max_abs_error);
    result_.max_rel_error = std::max(result_.max_rel_error, leaf.max_rel_error);
  }

  const Checkpoint& a_;
  const Checkpoint& b_;
  const DiffOptions& options_;
  DiffResult result_;
};

// Returns the rank for sorting: worse verdicts have smaller ranks.
int RankOf(DiffVerdict verdict) {
  switch (verdict) {
    case DiffVerdict::kUnreadable:
      return 0;
    case DiffVerdict::kOnlyInA:
      return 1;
    case DiffVerdict::kOnlyInB:
      return 2;
    case DiffVerdict::kKind:
      return 3;
    case DiffVerdict::kShape:
      return 4;
    case DiffVerdict::kDType:
      return 5;
    case DiffVerdict::kValues:
      return 6;
    default:
      return 7;
  }
}

bool IsWorse(const LeafDiff& a, const LeafDiff& b) {
  const int rank_a = RankOf(a.verdict), rank_b = RankOf(b.verdict);
  if (rank_a != rank_b) return rank_a < rank_b;
  const bool has_nan_a = a.nan_mismatch_count > 0;
  const bool has_nan_b = b.nan_mismatch_count > 0;
  if (has_nan_a != has_nan_b) return has_nan_a;
  if (a.max_rel_error != b.max_rel_error) {
    return a.max_rel_error > b.max_rel_error;
  }
  return a.max_abs_error > b.max_abs_error;
}

}  // namespace

std::string_view DiffVerdictName(DiffVerdict verdict) {
  switch (verdict) {
    case DiffVerdict::kSame:
      return "same";
    case DiffVerdict::kOnlyInA:
      return "only in a";
    case DiffVerdict::kOnlyInB:
      return "only in b";
    case DiffVerdict::kKind:
      return "kind";
    case DiffVerdict::kShape:
      return "shape";
    case DiffVerdict::kDType:
      return "dtype";
    case DiffVerdict::kValues:
      return "values";
    case DiffVerdict::kBits:
      return "bits";
    case DiffVerdict::kUnreadable:
      return "unreadable";
  }
  return "unknown";
}

Result<DiffResult> Diff(const Checkpoint& a, const Checkpoint& b,
                        const DiffOptions& options) {
  return CatchBadAlloc([&] { return Differ(a, b, options).Run(); });
}

std::vector<size_t> WorstFirst(const DiffResult& result) {
  std::vector<size_t> order;
  for (size_t i = 0; i < result.leaves.size(); ++i) {
    if (result.leaves[i].verdict != DiffVerdict::kSame) order.push_back(i);
  }
  std::stable_sort(order.begin(), order.end(), [&](size_t i, size_t j) {
    return IsWorse(result.leaves[i], result.leaves[j]);
  });
  return order;
}

}  // namespace holdfast
