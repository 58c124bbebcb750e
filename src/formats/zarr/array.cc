#include "formats/zarr/array.h"

#include <cassert>

#include "formats/zarr/context_pool.h"
#include "formats/zarr/read_chunk.h"
#include "formats/zarr/read_plan.h"
#include "formats/zarr/write_chunk.h"
#include "formats/zarr/write_plan.h"
#include "ground/base/status_macros.h"
#include "ground/tensor/copy.h"

namespace holdfast::zarr {
namespace {

// The number of chunks that are planned at a time.
constexpr int64_t kPlanChunksMax = 4096;

Status CheckPrefix(const std::string& prefix) {
  if (prefix.empty() || prefix.back() == '/') return Status();
  return InvalidArgumentError("prefix of a zarr array: got \"" + prefix +
                              "\", want \"\" or one that ends in '/'");
}

}  // namespace

struct Array::State {
  Store* store;
  std::string prefix;
  ArrayOptions options;
  ChunkFormat format;
  CodecContextPool contexts;

  Status CheckView(const Box& box, const ConstArrayView& view) const;
  Status WriteOne(const WriteItem& item, const ConstArrayView& source,
                  const CancelToken* cancel);
  Status Update(const WriteItem& item, const ConstArrayView& part,
                CodecContext& context, const CancelToken* cancel);
};

Status Array::State::CheckView(const Box& box,
                               const ConstArrayView& view) const {
  const ArrayMetadata& metadata = format.metadata;
  const size_t rank = metadata.shape.size();
  bool inside = box.origin.size() == rank && box.shape.size() == rank;
  for (size_t i = 0; inside && i < rank; ++i) {
    // Avoids the sum of origin and shape, which could overflow.
    inside = box.origin[i] >= 0 && box.shape[i] >= 0 &&
             box.shape[i] <= metadata.shape[i] &&
             box.origin[i] <= metadata.shape[i] - box.shape[i];
  }
  if (!inside) {
    return InvalidArgumentError(
        "zarr array \"" + prefix + "\": box not within the array (got rank " +
        std::to_string(box.shape.size()) + ", shape " +
        ShapeToString(box.shape) + " at " + ShapeToString(box.origin) +
        ", array " + ShapeToString(metadata.shape) + ")");
  }
  if (view.dtype != metadata.dtype || view.shape != box.shape) {
    return InvalidArgumentError(
        "zarr array \"" + prefix + "\": wrong view (got " +
        std::string(DTypeName(view.dtype)) + ShapeToString(view.shape) +
        ", want " + std::string(DTypeName(metadata.dtype)) +
        ShapeToString(box.shape) + ")");
  }
  return Status();
}

// Reads the chunk, replaces a part of it with `part`, and writes it back.
Status Array::State::Update(const WriteItem& item, const ConstArrayView& part,
                            CodecContext& context, const CancelToken* cancel) {
  HF_ASSIGN_OR_RETURN(
      holdfast::Array chunk,
      holdfast::Array::Allocate(format.metadata.dtype, item.stored_shape));
  const ArrayView view = chunk.mutable_view();
  const Status status =
      ReadChunkBox(*store, item.key, format, BoxOf(item.stored_shape), view,
                   context, cancel);
  if (status.code() == StatusCode::kNotFound) {
    FillStrided(view, format.metadata.fill_element.data());
  } else {
    HF_RETURN_IF_ERROR(status);
  }
  CopyStrided(part, Subview(view, item.box_in_chunk));
  return WriteChunk(*store, item.key, format, view, options.write, context);
}

Status Array::State::WriteOne(const WriteItem& item,
                              const ConstArrayView& source,
                              const CancelToken* cancel) {
  CodecContextPool::Lease context = contexts.Take();
  const ConstArrayView part = Subview(source, item.box_in_source);
  if (!item.covers_chunk()) return Update(item, part, *context, cancel);
  return WriteChunk(*store, item.key, format, part, options.write, *context);
}

Result<Array> Array::Assume(Store* store, std::string prefix,
                            const ArrayMetadata& metadata,
                            const ArrayOptions& options) {
  assert(store != nullptr);
  HF_RETURN_IF_ERROR(CheckPrefix(prefix));
  ChunkCodecOptions codec_options;
  codec_options.store_data_equal_to_fill_value =
      options.store_data_equal_to_fill_value;
  codec_options.zstd_checksums = options.zstd_checksums;
  auto state = std::make_shared<State>();
  state->store = store;
  state->prefix = std::move(prefix);
  state->options = options;
  HF_ASSIGN_OR_RETURN(state->format, MakeChunkFormat(metadata, codec_options));
  return Array(std::move(state));
}

Result<Array> Array::Create(Store* store, std::string prefix,
                            const ArrayMetadata& metadata,
                            const ArrayOptions& options) {
  HF_ASSIGN_OR_RETURN(Array array, Assume(store, prefix, metadata, options));
  HF_ASSIGN_OR_RETURN(const std::string text, SerializeMetadata(metadata));
  const std::string key =
      prefix + (options.metadata_key.empty()
                    ? std::string(MetadataKey(metadata.zarr_format))
                    : options.metadata_key);
  WriteOptions write = options.write;
  write.must_create = !options.overwrite;
  HF_RETURN_IF_ERROR(store->Write(key, text, write));
  return array;
}

const ArrayMetadata& Array::metadata() const { return state_->format.metadata; }

const std::string& Array::prefix() const { return state_->prefix; }

Status Array::Write(const Box& box, const ConstArrayView& source,
                    Executor* executor, const CancelToken* cancel) const {
  HF_RETURN_IF_ERROR(state_->CheckView(box, source));
  Executor alone(1);
  if (executor == nullptr) executor = &alone;
  for (const Box& part : SplitByChunks(metadata(), box, kPlanChunksMax)) {
    const ConstArrayView view = Subview(source, Relative(part, box.origin));
    const WritePlan plan = PlanWrite(metadata(), prefix(), part);
    HF_RETURN_IF_ERROR(executor->ParallelFor(
        plan.size(),
        [&](size_t i, int) { return state_->WriteOne(plan[i], view, cancel); },
        cancel));
  }
  return Status();
}

}  // namespace holdfast::zarr
