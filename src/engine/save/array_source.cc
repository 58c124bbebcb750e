#include "engine/save/array_source.h"

#include <algorithm>

#include "ground/base/status_macros.h"
#include "ground/tensor/copy.h"

namespace holdfast {

Result<ArraySource> ArraySource::Of(const Tree& leaf, bool is_partial) {
  ArraySource source;
  if (leaf.leaf_kind() == LeafKind::kScalar) {
    const Scalar& scalar = leaf.scalar();
    source.whole_ = {scalar.dtype, scalar.bytes.data(), {}, {}};
    return source;
  }
  if (leaf.reader() != nullptr) {
    source.reader_ = leaf.reader();
    source.whole_ = {leaf.array_dtype(), nullptr, leaf.array_shape(), {}};
    return source;
  }
  if (!leaf.is_sharded()) {
    source.whole_ = leaf.array().view();
    return source;
  }
  source.shards_ = &leaf.shards();
  source.whole_ = {leaf.array_dtype(), nullptr, leaf.array_shape(), {}};
  std::vector<Box> boxes;
  boxes.reserve(source.shards_->size());
  for (const ArrayShard& shard : *source.shards_) {
    if (shard.array.dtype() != source.dtype()) {
      return InvalidArgumentError("shards of two dtypes (got " +
                                  std::string(DTypeName(shard.array.dtype())) +
                                  ", want " +
                                  std::string(DTypeName(source.dtype())) + ")");
    }
    if (shard.origin.size() != source.shape().size() ||
        shard.array.shape().size() != source.shape().size()) {
      return InvalidArgumentError(
          "a shard at " + ShapeToString(shard.origin) + " of shape " +
          ShapeToString(shard.array.shape()) + " in an array of shape " +
          ShapeToString(source.shape()));
    }
    boxes.push_back({shard.origin, shard.array.shape()});
    if (shard.reader != nullptr) source.has_shard_readers_ = true;
  }
  source.index_ = std::make_shared<const BoxIndex>(std::move(boxes));
  HF_RETURN_IF_ERROR(is_partial ? source.index_->CheckDisjoint(source.shape())
                                : source.index_->CheckCover(source.shape()));
  return source;
}

std::optional<ConstArrayView> ArraySource::Find(const Box& box) const {
  if (reader_ != nullptr) return std::nullopt;
  if (shards_ == nullptr) return Subview(whole_, box);
  std::optional<ConstArrayView> found;
  index_->ForEachOverlap(box, [&](size_t i, const Box& common) {
    if (common != box) return;
    const ArrayShard& shard = (*shards_)[i];
    if (shard.reader != nullptr) return;
    found = Subview(shard.array.view(), Relative(box, shard.origin));
  });
  return found;
}

namespace {

// Reads elements from a reader, which returns its own dtype, and casts them to
// the target's dtype if that differs.
Status ReadDeferred(const ArrayReader& reader, DType dtype, const Box& box,
                    const ArrayView& target) {
  if (target.dtype == dtype) return reader.Read(box.origin, target);
  HF_ASSIGN_OR_RETURN(Array elements, Array::Allocate(dtype, box.shape));
  HF_RETURN_IF_ERROR(reader.Read(box.origin, elements.mutable_view()));
  ConvertStrided(elements.view(), target);
  return Status();
}

}  // namespace

Status ArraySource::CopyTo(const Box& box, const ArrayView& target) const {
  if (reader_ != nullptr) return ReadDeferred(*reader_, dtype(), box, target);
  if (shards_ == nullptr) {
    ConvertStrided(Subview(whole_, box), target);
    return Status();
  }
  Status status;
  index_->ForEachOverlap(box, [&](size_t i, const Box& common) {
    if (!status.ok()) return;
    const ArrayShard& shard = (*shards_)[i];
    const Box from = Relative(common, shard.origin);
    const ArrayView to = Subview(target, Relative(common, box.origin));
    if (shard.reader != nullptr) {
      status = ReadDeferred(*shard.reader, dtype(), from, to);
    } else {
      ConvertStrided(Subview(shard.array.view(), from), to);
    }
  });
  return status;
}

int64_t ArraySource::CountElements(const Box& box) const {
  if (shards_ == nullptr) return ElementCount(box.shape);
  int64_t count = 0;
  index_->ForEachOverlap(box, [&](size_t, const Box& common) {
    count += ElementCount(common.shape);
  });
  return count;
}

Result<std::vector<uint64_t>> ArraySource::ChunksHere(
    const ChunkGrid& grid) const {
  const Shape counts = grid.ChunkCounts();
  std::vector<uint64_t> chunks;
  for (const ArrayShard& shard : *shards_) {
    const Box box{shard.origin, shard.array.shape()};
    HF_RETURN_IF_ERROR(ForEachChunk(grid, box, [&](const Shape& index) {
      const Box chunk = grid.ChunkBox(index);
      const int64_t here = CountElements(chunk);
      if (here != ElementCount(chunk.shape)) {
        return InvalidArgumentError(
            "chunk " + BoxToString(chunk) + " is cut by a border between " +
            "processes (got " + std::to_string(here) + " of its " +
            std::to_string(ElementCount(chunk.shape)) +
            " elements here); choose a write_shape that divides every shard");
      }
      uint64_t number = 0;
      for (size_t d = 0; d < index.size(); ++d) {
        number = number * counts[d] + index[d];
      }
      chunks.push_back(number);
      return Status();
    }));
  }
  std::sort(chunks.begin(), chunks.end());
  chunks.erase(std::unique(chunks.begin(), chunks.end()), chunks.end());
  return chunks;
}

bool ArraySource::FindsAllChunks(const ChunkGrid& grid) const {
  if (reader_ != nullptr || has_shard_readers_) return false;
  if (shards_ == nullptr) return true;
  // No edge of a shard may cut through a chunk.
  const auto is_edge = [&](int64_t at, size_t d) {
    return at % grid.chunk_shape[d] == 0 || at == grid.array_shape[d];
  };
  return std::all_of(
      shards_->begin(), shards_->end(), [&](const ArrayShard& shard) {
        for (size_t d = 0; d < shard.origin.size(); ++d) {
          if (!is_edge(shard.origin[d], d) ||
              !is_edge(shard.origin[d] + shard.array.shape()[d], d)) {
            return false;
          }
        }
        return true;
      });
}

bool ArraySource::FindsChunksPacked(const ChunkGrid& grid) const {
  const auto is_packed = [&](const ConstArrayView& view) {
    Box chunk = BoxOf(grid.chunk_shape);
    for (size_t d = 0; d < chunk.shape.size(); ++d) {
      chunk.shape[d] = std::min(chunk.shape[d], view.shape[d]);
    }
    return IsContiguous(Subview(view, chunk));
  };
  if (shards_ == nullptr) return is_packed(whole_);
  return std::all_of(
      shards_->begin(), shards_->end(), [&](const ArrayShard& shard) {
        return shard.reader != nullptr || is_packed(shard.array.view());
      });
}

}  // namespace holdfast
