#include "convert/check_target.h"

#include <string>
#include <unordered_map>
#include <utility>

#include "base/buffer_pool.h"
#include "base/status_macros.h"
#include "run/run.h"

namespace holdfast {
namespace {

class TargetChecker {
 public:
  TargetChecker(const Checkpoint& source, const Checkpoint& target,
                const TargetPlan& plan, const CopyPlan& copy,
                const std::vector<uint64_t>& hashes,
                const CheckTargetOptions& options)
      : source_(source),
        target_(target),
        plan_(plan),
        copy_(copy),
        hashes_(hashes),
        options_(options),
        run_(options.run) {}

  Result<uint64_t> Check() {
    HF_RETURN_IF_ERROR(MatchLeaves());
    for (const FeedUnit& unit : copy_.units) {
      progress_.total_bytes += unit.byte_count();
    }
    size_t first = 0;
    while (first < copy_.units.size()) {
      size_t last = first;
      uint64_t byte_count = 0;
      do {
        byte_count += copy_.units[last++].byte_count();
      } while (last < copy_.units.size() &&
               byte_count + copy_.units[last].byte_count() <=
                   options_.bytes_max);
      HF_RETURN_IF_ERROR(CheckBatch(first, last));
      progress_.done_bytes += byte_count;
      if (options_.progress) options_.progress(progress_);
      first = last;
    }
    return progress_.done_bytes;
  }

 private:
  Status Differs(const TargetLeaf& leaf, const std::string& why) const {
    return DataLossError("convert: leaf " + leaf.name + " in " +
                         target_.info().path + ": " + why);
  }

  // The name made of its keys, not the one it has in the files.
  static std::string NameOf(const TargetLeaf& leaf) {
    std::string name;
    for (size_t i = 0; i < leaf.key.size(); ++i) {
      if (i > 0) name += '.';
      name += leaf.key[i];
    }
    return name;
  }

  Status MatchLeaves() {
    std::unordered_map<std::string, size_t> by_name;
    for (size_t i = 0; i < target_.leaves().size(); ++i) {
      by_name.emplace(target_.leaves()[i].name, i);
    }
    for (const TargetLeaf& leaf : plan_.leaves) {
      const auto found = by_name.find(NameOf(leaf));
      if (found == by_name.end()) return Differs(leaf, "it is missing");
      match_.push_back(found->second);
      HF_RETURN_IF_ERROR(CheckLeaf(leaf, found->second));
    }
    if (by_name.size() == plan_.leaves.size()) return Status();
    return DataLossError("convert: " + target_.info().path + ": got " +
                         std::to_string(by_name.size()) + " leaves, want " +
                         std::to_string(plan_.leaves.size()));
  }

  Status CheckLeaf(const TargetLeaf& leaf, size_t number) const {
    const LeafInfo& copy = target_.leaves()[number];
    HF_RETURN_IF_ERROR(copy.problem.WithContext("leaf " + leaf.name));
    if (copy.kind != leaf.kind || copy.shape != leaf.shape ||
        (copy.dtype && *copy.dtype != leaf.dtype)) {
      return Differs(leaf, "its kind, dtype or shape differs");
    }
    if (leaf.kind == ValueKind::kArray) return Status();
    HF_ASSIGN_OR_RETURN(const std::string want,
                        DigestLeaf(source_, leaf.source));
    HF_ASSIGN_OR_RETURN(const std::string got, DigestLeaf(target_, number));
    if (got == want) return Status();
    return Differs(leaf, "sha256 differs (got " + got + ", want " + want + ")");
  }

  Status CheckBatch(size_t first, size_t last) {
    std::vector<std::shared_ptr<Buffer>> buffers;
    std::vector<ReadRequest> requests;
    for (size_t i = first; i < last; ++i) {
      const FeedUnit& unit = copy_.units[i];
      const auto& buffer = buffers.emplace_back(pool_.Get(unit.byte_count()));
      if (buffer == nullptr) {
        return ResourceExhaustedError("no memory for a piece of " +
                                      std::to_string(unit.byte_count()) +
                                      " bytes");
      }
      requests.push_back(
          {match_[copy_.target_leaves[i]],
           unit.box.origin,
           {unit.dtype, buffer->data(), unit.box.shape,
            ContiguousStrides(unit.box.shape, DTypeBytes(unit.dtype))}});
    }
    HF_RETURN_IF_ERROR(target_.ReadInto(requests, options_.run).status());
    return run_.executor().ParallelFor(
        last - first,
        [&](size_t item, int) -> Status {
          const FeedUnit& unit = copy_.units[first + item];
          const uint64_t got =
              ElementsHash({buffers[item]->data(), unit.byte_count()});
          if (got == hashes_[first + item]) return Status();
          return Differs(plan_.leaves[copy_.target_leaves[first + item]],
                         "elements " + BoxToString(unit.box) +
                             " are not those of the source");
        },
        &run_.cancel());
  }

  const Checkpoint& source_;
  const Checkpoint& target_;
  const TargetPlan& plan_;
  const CopyPlan& copy_;
  const std::vector<uint64_t>& hashes_;
  const CheckTargetOptions& options_;
  Run run_;
  BufferPool pool_;
  std::vector<size_t> match_;  // leaf of the plan -> of the target
  Progress progress_{.phase = "check"};
};

}  // namespace

Result<uint64_t> CheckTarget(const Checkpoint& source, const Checkpoint& target,
                             const TargetPlan& plan, const CopyPlan& copy,
                             const std::vector<uint64_t>& hashes,
                             const CheckTargetOptions& options) {
  return TargetChecker(source, target, plan, copy, hashes, options).Check();
}

}  // namespace holdfast
