#include "tools/convert/check_copy.h"

#include <string>
#include <unordered_map>
#include <utility>

#include "ground/base/buffer_pool.h"
#include "ground/base/status_macros.h"
#include "ground/base/text.h"
#include "ground/run/run.h"

namespace holdfast {
namespace {

class Checker {
 public:
  Checker(const Checkpoint& source, const Checkpoint& target,
          const CheckOptions& options)
      : source_(source),
        target_(target),
        options_(options),
        run_(options.run) {}

  Result<uint64_t> Check(const std::vector<CopiedItem>& items) {
    HF_RETURN_IF_ERROR(MatchLeaves(items));
    for (const CopiedItem& item : items) {
      for (const FeedUnit& unit : item.units) {
        progress_.total_bytes += unit.byte_count();
      }
    }
    for (const CopiedItem& item : items) {
      HF_RETURN_IF_ERROR(CheckLeaves(item));
      HF_RETURN_IF_ERROR(CheckUnits(item));
    }
    return progress_.done_bytes;
  }

 private:
  Status Differs(size_t source, const std::string& why) const {
    return DataLossError("convert: leaf " + source_.leaves()[source].name +
                         " in " + target_.info().path + ": " + why);
  }

  // Returns the text by which the target identifies a leaf.
  std::string KeyText(const std::vector<std::string>& key) const {
    if (!options_.has_keys) return Joined(key, ".");
    return std::to_string(key.size()) + Joined(key, {"\0", 1});
  }

  Status MatchLeaves(const std::vector<CopiedItem>& items) {
    std::unordered_map<std::string, size_t> by_key;
    for (size_t i = 0; i < target_.leaves().size(); ++i) {
      const LeafInfo& leaf = target_.leaves()[i];
      by_key.emplace(options_.has_keys ? KeyText(leaf.key) : leaf.name, i);
    }
    size_t count = 0;
    for (const CopiedItem& item : items) {
      for (const CopiedLeaf& leaf : item.leaves) {
        const auto found = by_key.find(KeyText(leaf.key));
        if (found == by_key.end()) {
          return Differs(leaf.source, "it is missing");
        }
        match_[leaf.source] = found->second;
        ++count;
      }
    }
    if (count == target_.leaves().size()) return Status();
    return DataLossError("convert: " + target_.info().path + ": got " +
                         std::to_string(target_.leaves().size()) +
                         " leaves, want " + std::to_string(count));
  }

  // Compares the metadata of all leaves, and the values of leaves that are not
  // arrays.
  Status CheckLeaves(const CopiedItem& item) {
    for (const CopiedLeaf& leaf : item.leaves) {
      const size_t number = match_[leaf.source];
      const LeafInfo& copy = target_.leaves()[number];
      HF_RETURN_IF_ERROR(copy.problem.WithContext("leaf " + copy.name));
      const bool has_dtype = options_.has_keys || copy.dtype;
      if (copy.kind != leaf.kind || copy.shape != leaf.shape ||
          (has_dtype && copy.dtype != leaf.dtype)) {
        return Differs(leaf.source, "its kind, dtype or shape differs");
      }
      if (leaf.kind == ValueKind::kArray || !options_.checks_small) continue;
      HF_ASSIGN_OR_RETURN(const std::string want,
                          DigestLeaf(source_, leaf.source));
      HF_ASSIGN_OR_RETURN(const std::string got, DigestLeaf(target_, number));
      if (got != want) {
        return Differs(leaf.source,
                       "sha256 differs (got " + got + ", want " + want + ")");
      }
    }
    return Status();
  }

  Status CheckUnits(const CopiedItem& item) {
    size_t first = 0;
    while (first < item.units.size()) {
      size_t last = first;
      uint64_t byte_count = 0;
      do {
        byte_count += item.units[last++].byte_count();
      } while (last < item.units.size() &&
               byte_count + item.units[last].byte_count() <=
                   options_.bytes_max);
      HF_RETURN_IF_ERROR(CheckBatch(item, first, last));
      Report(byte_count);
      first = last;
    }
    return Status();
  }

  Result<std::vector<uint64_t>> HashesIn(const Checkpoint& checkpoint,
                                         const CopiedItem& item, size_t first,
                                         size_t last, bool is_target) {
    std::vector<std::shared_ptr<Buffer>> buffers;
    std::vector<ReadRequest> requests;
    for (size_t i = first; i < last; ++i) {
      const FeedUnit& unit = item.units[i];
      const auto& buffer = buffers.emplace_back(pool_.Get(unit.byte_count()));
      if (buffer == nullptr) {
        return ResourceExhaustedError("no memory for a chunk of " +
                                      std::to_string(unit.byte_count()) +
                                      " bytes");
      }
      requests.push_back(
          {is_target ? match_[unit.leaf] : unit.leaf,
           unit.box.origin,
           {unit.dtype, buffer->data(), unit.box.shape,
            ContiguousStrides(unit.box.shape, DTypeBytes(unit.dtype))}});
    }
    HF_RETURN_IF_ERROR(checkpoint.ReadInto(requests, options_.run).status());
    std::vector<uint64_t> hashes(last - first);
    HF_RETURN_IF_ERROR(run_.executor().ParallelFor(
        hashes.size(),
        [&](size_t i, int) -> Status {
          hashes[i] = ElementsHash(
              {buffers[i]->data(), item.units[first + i].byte_count()});
          return Status();
        },
        &run_.cancel()));
    return hashes;
  }

  Status CheckBatch(const CopiedItem& item, size_t first, size_t last) {
    HF_ASSIGN_OR_RETURN(const std::vector<uint64_t> got,
                        HashesIn(target_, item, first, last, true));
    for (size_t i = first; i < last; ++i) {
      uint64_t want = 0;
      if (item.hashes[i]) {
        want = *item.hashes[i];
      } else {
        // The unit was never in a batch, so its hash must be computed from the
        // source.
        HF_ASSIGN_OR_RETURN(const std::vector<uint64_t> read,
                            HashesIn(source_, item, i, i + 1, false));
        want = read[0];
      }
      if (got[i - first] == want) continue;
      const FeedUnit& unit = item.units[i];
      return Differs(unit.leaf, "elements " + BoxToString(unit.box) +
                                    " are not those of the source");
    }
    return Status();
  }

  void Report(uint64_t byte_count) {
    progress_.done_bytes += byte_count;
    if (options_.progress) options_.progress(progress_);
  }

  const Checkpoint& source_;
  const Checkpoint& target_;
  const CheckOptions& options_;
  Run run_;  // of hashes
  BufferPool pool_;
  std::unordered_map<size_t, size_t> match_;  // source leaf -> target leaf
  Progress progress_{.phase = "check"};
};

}  // namespace

Result<uint64_t> CheckCopy(const Checkpoint& source, const Checkpoint& target,
                           const std::vector<CopiedItem>& items,
                           const CheckOptions& options) {
  return Checker(source, target, options).Check(items);
}

}  // namespace holdfast
