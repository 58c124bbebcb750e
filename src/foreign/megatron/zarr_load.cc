#include "foreign/megatron/zarr_load.h"

#include <algorithm>
#include <map>
#include <mutex>

#include "foreign/megatron/chunk_read.h"
#include "foreign/megatron/error.h"
#include "ground/base/no_throw.h"
#include "ground/base/status_macros.h"
#include "ground/run/run.h"
#include "ground/tensor/copy.h"
#include "stores/place/place.h"

namespace holdfast::megatron {
namespace {

// A requested tensor while it is loaded.
struct Loading {
  ArrayState array;
  TensorPlan plan;
  Array result;      // of the plan's shape
  ArrayView target;  // its elements
  Array local;       // the complete shard, with via_local
};

class ZarrLoader {
 public:
  ZarrLoader(std::span<const ShardedTensor> tensors,
             std::span<const ArrayView> targets,
             const std::string& checkpoint_dir, const ZarrLoadOptions& options)
      : tensors_(tensors),
        targets_(targets),
        options_(options),
        store_(Place(checkpoint_dir).OpenStore()),
        run_(options.run, store_->requests_in_flight()),
        loading_(tensors.size()) {}

  Result<std::vector<LoadedTensor>> LoadAll() {
    HF_RETURN_IF_ERROR(OpenAll());
    for (size_t i = 0; i < tensors_.size(); ++i) {
      HF_RETURN_IF_ERROR(Prepare(i));
    }
    run_.StartPhase("read", ReadBytes());
    PartReader reader(options_.absent_chunks, store_->Describe(""), run_);
    for (size_t i = 0; i < tensors_.size(); ++i) {
      HF_RETURN_IF_ERROR(Read(i, reader));
    }
    Stats stats;
    HF_ASSIGN_OR_RETURN(const std::vector<AbsentPart> absent,
                        reader.Finish(stats));
    return Collect(absent);
  }

 private:
  Status OpenAll() {
    std::map<std::string_view, std::vector<size_t>> by_key;
    std::vector<size_t> first;
    for (size_t i = 0; i < tensors_.size(); ++i) {
      auto& users = by_key[tensors_[i].key];
      if (users.empty()) first.push_back(i);
      users.push_back(i);
    }
    return run_.executor().ParallelFor(
        first.size(), [&](size_t n, int) -> Status {
          const std::string& key = tensors_[first[n]].key;
          HF_ASSIGN_OR_RETURN(const ArrayState array,
                              OpenArray(store_, key, options_.mode));
          for (const size_t i : by_key.at(key)) loading_[i].array = array;
          return Status();
        });
  }

  // Prepares the memory that tensor i is read into.
  Status Prepare(size_t i) {
    Loading& loading = loading_[i];
    HF_ASSIGN_OR_RETURN(loading.plan,
                        PlanTensor(*loading.array, tensors_[i], options_.mode,
                                   options_.pad_replicate));
    const DType dtype = loading.array->metadata().dtype;
    if (i < targets_.size() && targets_[i].data != nullptr) {
      HF_RETURN_IF_ERROR(CheckTarget(i, dtype));
      loading.target = targets_[i];
      loading.result = Array::Borrow(loading.target, nullptr);
    } else {
      HF_ASSIGN_OR_RETURN(loading.result,
                          Array::Allocate(dtype, loading.plan.shape));
      loading.target = loading.result.mutable_view();
    }
    const std::string zero(DTypeBytes(dtype), '\0');
    if (loading.plan.via_local) {
      HF_ASSIGN_OR_RETURN(loading.local,
                          Array::Allocate(dtype, tensors_[i].local_shape));
      FillStrided(loading.local.mutable_view(), zero.data());
    } else if (loading.plan.is_padded) {
      FillStrided(loading.target, zero.data());
    }
    return Status();
  }

  Status CheckTarget(size_t i, DType dtype) const {
    const ArrayView& target = targets_[i];
    if (target.dtype != dtype) {
      return MakeError(
          StatusCode::kInvalidArgument, "DTYPE_MISMATCH", "ValueError",
          "the buffer for " + tensors_[i].key + " has dtype " +
              std::string(DTypeName(target.dtype)) + ", the stored array " +
              std::string(DTypeName(dtype)));
    }
    if (target.shape == loading_[i].plan.shape) return Status();
    return InvalidArgumentError("the buffer for " + tensors_[i].key +
                                " has shape " + ShapeToString(target.shape) +
                                ", want " +
                                ShapeToString(loading_[i].plan.shape));
  }

  Status Read(size_t i, PartReader& reader) {
    Loading& loading = loading_[i];
    const bool via_local = loading.plan.via_local;
    const ArrayView target =
        via_local ? loading.local.mutable_view() : loading.target;
    for (const StoredPart& part :
         StoredParts(*loading.array, tensors_[i], target, via_local)) {
      HF_RETURN_IF_ERROR(reader.Add(loading.array.get(), i, part));
    }
    return Status();
  }

  uint64_t ReadBytes() const {
    uint64_t bytes = 0;
    for (const Loading& loading : loading_) {
      bytes += loading.result.byte_count();
    }
    return bytes;
  }

  Result<std::vector<LoadedTensor>> Collect(
      const std::vector<AbsentPart>& absent) {
    std::vector<LoadedTensor> loaded(tensors_.size());
    for (size_t i = 0; i < tensors_.size(); ++i) {
      HF_RETURN_IF_ERROR(Finish(i));
      loaded[i].array = std::move(loading_[i].result);
    }
    for (const AbsentPart& chunk : absent) {
      auto& names = loaded[chunk.tensor].absent_chunks;
      if (names.empty() || names.back() != chunk.key) {
        names.push_back(chunk.key);
      }
    }
    return loaded;
  }

  Status Finish(size_t i) {
    Loading& loading = loading_[i];
    if (!loading.plan.is_padded || !options_.pad_replicate) return Status();
    const Shape stored = StoredLocalShape(*loading.array, tensors_[i]);
    if (!loading.plan.via_local) {
      ReplicatePadding(loading.target, stored);
      return Status();
    }
    ReplicatePadding(loading.local.mutable_view(), stored);
    HF_ASSIGN_OR_RETURN(const Array flat,
                        FlattenRange(tensors_[i], loading.local));
    CopyStrided(flat.view(), loading.target);
    return Status();
  }

  const std::span<const ShardedTensor> tensors_;
  const std::span<const ArrayView> targets_;
  const ZarrLoadOptions& options_;
  const std::shared_ptr<Store> store_;
  Run run_;
  std::vector<Loading> loading_;
};

}  // namespace

Result<std::vector<LoadedTensor>> ZarrLoadShardedStrategy::Load(
    std::span<const ShardedTensor> tensors, const std::string& checkpoint_dir,
    ZarrLoadOptions options, std::span<const ArrayView> targets) const {
  options.mode = mode_;
  return CatchBadAlloc([&]() -> Result<std::vector<LoadedTensor>> {
    return ZarrLoader(tensors, targets, checkpoint_dir, options).LoadAll();
  });
}

Result<LoadedTensor> LoadFromArray(const ShardedTensor& tensor,
                                   const std::string& checkpoint_dir,
                                   const ZarrLoadOptions& options,
                                   const ArrayView& target) {
  const ZarrLoadShardedStrategy strategy("zarr", 1, options.mode);
  HF_ASSIGN_OR_RETURN(
      auto loaded,
      strategy.Load(std::span<const ShardedTensor>(&tensor, 1), checkpoint_dir,
                    options, std::span<const ArrayView>(&target, 1)));
  return std::move(loaded[0]);
}

}  // namespace holdfast::megatron
