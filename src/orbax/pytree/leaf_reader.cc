#include "orbax/pytree/leaf_reader.h"

#include <functional>
#include <utility>

#include "engine/format/directory_names.h"
#include "ground/base/status_macros.h"
#include "ground/run/run.h"
#include "ground/tensor/box.h"
#include "orbax/handlers/scalar_value.h"
#include "orbax/handlers/sharded_read.h"
#include "orbax/pytree/leaf_placement.h"
#include "orbax/pytree/leaf_plan.h"
#include "orbax/pytree/leaf_value.h"
#include "orbax/pytree/missing_leaf.h"

namespace holdfast {
namespace {

// The leaves of a user-defined handler.
struct HandlerBatch {
  std::shared_ptr<TypeHandler> handler;
  std::vector<size_t> requests;  // indices
};

class LeafBatchReader {
 public:
  LeafBatchReader(const ReadContext& context,
                  const std::vector<LeafRequest>& requests)
      : context_(context),
        requests_(requests),
        planner_(*context.registry),
        results_(requests.size()) {
    if (context.source != nullptr) {
      placer_.emplace(*context.source, context.processes);
    }
  }

  Result<std::vector<Tree>> Read() {
    for (size_t i = 0; i < requests_.size(); ++i) {
      HF_RETURN_IF_ERROR(Prepare(i));
    }
    if (!reads_.empty()) {
      HF_ASSIGN_OR_RETURN(
          const Stats stats,
          context_.source->checkpoint().ReadInto(reads_, context_.run));
      if (context_.stats != nullptr) *context_.stats = stats;
    }
    for (const HandlerBatch& batch : batches_) {
      HF_RETURN_IF_ERROR(Deserialize(batch));
    }
    for (const auto& finish : finishers_) HF_RETURN_IF_ERROR(finish());
    return std::move(results_);
  }

 private:
  Status Prepare(size_t i) {
    const LeafRequest& request = requests_[i];
    HF_ASSIGN_OR_RETURN(LeafPlan plan, planner_.Plan(request));
    switch (plan.action) {
      case LeafAction::kEmpty: {
        HF_ASSIGN_OR_RETURN(results_[i], EmptyOfType(request.entry.value_type));
        return Status();
      }
      case LeafAction::kPlaceholder:
        results_[i] = Tree::Placeholder();
        return Status();
      case LeafAction::kNumpy:
        return PrepareNumpy(i);
      case LeafAction::kScalar:
        return PrepareScalar(i);
      case LeafAction::kJax:
        return PrepareJax(i);
      case LeafAction::kString:
        return PrepareString(i);
      case LeafAction::kHandler:
        AddToBatch(plan.handler, i);
        return Status();
    }
    return Status();
  }

  // Returns the index of the stored array, or Orbax's message if it is missing.
  Result<size_t> ArrayLeaf(const LeafRequest& request) const {
    const std::optional<size_t> index =
        context_.source == nullptr ? std::nullopt
                                   : context_.source->Find(request.info.name);
    if (index && context_.source->leaf(*index).problem.ok() &&
        context_.source->leaf(*index).dtype) {
      return *index;
    }
    const ParamInfo& info = request.info;
    const Status problem =
        index ? context_.source->leaf(*index).problem : Status();
    HF_RETURN_IF_ERROR(ExplainMissingArray(
        {info.parent_dir, info.name, info.use_zarr3 ? "zarr.json" : ".zarray",
         info.is_ocdbt_checkpoint ? std::optional(true) : std::nullopt},
        problem));
    return problem;
  }

  Result<Array> Allocate(const LeafInfo& leaf, const LeafRequest& request,
                         Shape shape) {
    HF_ASSIGN_OR_RETURN(const DType dtype,
                        ResultDType(*leaf.dtype, RestoreDType(request.args)));
    HF_ASSIGN_OR_RETURN(Array array, Array::Allocate(dtype, std::move(shape)));
    HF_RETURN_IF_ERROR(need_.Add(array.byte_count()));
    return array;
  }

  // Adds a read of a complete leaf. Returns its array, which is filled later.
  Result<Array> ReadWhole(const LeafRequest& request) {
    HF_ASSIGN_OR_RETURN(const size_t index, ArrayLeaf(request));
    const LeafInfo& leaf = context_.source->leaf(index);
    HF_ASSIGN_OR_RETURN(Array array, Allocate(leaf, request, leaf.shape));
    reads_.push_back(
        {index, Shape(leaf.shape.size(), 0), array.mutable_view()});
    return array;
  }

  Status PrepareNumpy(size_t i) {
    HF_ASSIGN_OR_RETURN(Array array, ReadWhole(requests_[i]));
    results_[i] = Tree(std::move(array));
    return Status();
  }

  Status PrepareScalar(size_t i) {
    HF_ASSIGN_OR_RETURN(Array array, ReadWhole(requests_[i]));
    if (!array.shape().empty()) {
      return InvalidArgumentError("Restored result is not a scalar.");
    }
    finishers_.push_back([this, i, array]() -> Status {
      HF_ASSIGN_OR_RETURN(results_[i],
                          ScalarOf(array, RestoreTypeOf(requests_[i].args)));
      return Status();
    });
    return Status();
  }

  Status PrepareJax(size_t i) {
    const LeafRequest& request = requests_[i];
    HF_ASSIGN_OR_RETURN(const size_t index, ArrayLeaf(request));
    const LeafInfo& leaf = context_.source->leaf(index);
    HF_ASSIGN_OR_RETURN(const auto placement,
                        placer_->Place(leaf, request.args));
    const ArrayRestoreArgs* args = AsArrayRestoreArgs(request.args);
    const Box first = placement->boxes.empty() ? BoxOf(placement->shape)
                                               : placement->boxes.front();
    HF_RETURN_IF_ERROR(CheckRestoreShape(placement->shape, leaf.shape,
                                         args == nullptr || args->strict,
                                         first.origin, first.shape));
    std::vector<ArrayShard> shards;
    for (const Box& box : placement->boxes) {
      HF_ASSIGN_OR_RETURN(Array array, Allocate(leaf, request, box.shape));
      AddBox(index, box, array);
      shards.push_back({box.origin, std::move(array)});
    }
    HF_ASSIGN_OR_RETURN(const DType dtype,
                        ResultDType(*leaf.dtype, RestoreDType(request.args)));
    results_[i] = JaxArrayOf(*placement, dtype, std::move(shards));
    return Status();
  }

  // Adds a read of the stored part of the box. The other elements are zero.
  void AddBox(size_t index, const Box& box, Array& array) {
    const ArrayView view = array.mutable_view();
    const std::optional<Box> stored =
        Intersect(box, BoxOf(context_.source->leaf(index).shape));
    if (stored && *stored == box) {
      reads_.push_back({index, box.origin, view});
      return;
    }
    FillZeros(view);
    if (!stored) return;
    reads_.push_back(
        {index, stored->origin, Subview(view, Relative(*stored, box.origin))});
  }

  Status PrepareString(size_t i) {
    HF_ASSIGN_OR_RETURN(
        std::string text,
        ReadString(context_.source, context_.directory, requests_[i].info));
    results_[i] = Tree(std::move(text));
    return Status();
  }

  void AddToBatch(const std::shared_ptr<TypeHandler>& handler, size_t i) {
    for (HandlerBatch& batch : batches_) {
      if (batch.handler != handler) continue;
      batch.requests.push_back(i);
      return;
    }
    batches_.push_back({handler, {i}});
  }

  Status Deserialize(const HandlerBatch& batch) {
    std::vector<ParamInfo> infos;
    std::vector<AnyRestoreArgs> args;
    for (const size_t i : batch.requests) {
      infos.push_back(requests_[i].info);
      args.push_back(requests_[i].args);
    }
    HF_ASSIGN_OR_RETURN(std::vector<Tree> values,
                        batch.handler->Deserialize(infos, args));
    if (values.size() != infos.size()) {
      return InternalError("TypeHandler " + batch.handler->typestr() +
                           " gave " + std::to_string(values.size()) +
                           " values for " + std::to_string(infos.size()) +
                           " leaves");
    }
    for (size_t k = 0; k < values.size(); ++k) {
      results_[batch.requests[k]] = std::move(values[k]);
    }
    return Status();
  }

  const ReadContext& context_;
  const std::vector<LeafRequest>& requests_;
  LeafPlanner planner_;
  std::optional<Placer> placer_;
  std::vector<Tree> results_;
  std::vector<ReadRequest> reads_;
  std::vector<HandlerBatch> batches_;
  std::vector<std::function<Status()>> finishers_;  // run after the reads
  MemoryNeed need_;
};

}  // namespace

Result<std::vector<Tree>> ReadLeaves(const ReadContext& context,
                                     const std::vector<LeafRequest>& requests) {
  return LeafBatchReader(context, requests).Read();
}

}  // namespace holdfast
