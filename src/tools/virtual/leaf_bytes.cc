#include "tools/virtual/leaf_bytes.h"

#include <algorithm>
#include <cstring>

#include "ground/base/status_macros.h"

namespace holdfast {
namespace {

constexpr uint64_t kBlockBytesTarget = uint64_t{4} << 20;
// A budget holds this many of the largest blocks, so that this many clients can
// read concurrently.
constexpr uint64_t kBlocksInBudget = 8;

}  // namespace

LeafBlocks CutLeaf(const Shape& shape, const Shape& chunk_shape,
                   size_t element_bytes, uint64_t bytes_target,
                   uint64_t bytes_max) {
  LeafBlocks cut;
  cut.row_bytes = cut.axis_bytes = element_bytes;
  if (shape.empty()) return cut;
  const Shape strides = ContiguousStrides(shape, element_bytes);
  const auto chunk_rows = [&](size_t axis) {
    return chunk_shape.empty()
               ? int64_t{1}
               : std::min(std::max<int64_t>(1, chunk_shape[axis]), shape[axis]);
  };
  const auto fits = [&](size_t axis) {
    return static_cast<uint64_t>(strides[axis]) <=
           bytes_max / static_cast<uint64_t>(chunk_rows(axis));
  };
  while (cut.axis + 1 < shape.size() && !fits(cut.axis)) ++cut.axis;
  cut.row_bytes = strides[cut.axis];
  cut.axis_bytes = cut.row_bytes * shape[cut.axis];
  const uint64_t unit = fits(cut.axis) ? chunk_rows(cut.axis) : 1;
  const uint64_t wanted =
      fits(cut.axis) ? bytes_target : std::max(bytes_target, bytes_max);
  const uint64_t units = std::max<uint64_t>(1, wanted / cut.row_bytes / unit);
  cut.row_count = std::min<uint64_t>(shape[cut.axis], units * unit);
  cut.blocks_per_axis = (shape[cut.axis] + cut.row_count - 1) / cut.row_count;
  return cut;
}

LeafBytes::LeafBytes(std::shared_ptr<const Checkpoint> checkpoint,
                     const RunOptions& run, uint64_t kept_bytes_max)
    : checkpoint_(std::move(checkpoint)),
      run_(run),
      block_bytes_max_(std::max<uint64_t>(1, kept_bytes_max / kBlocksInBudget)),
      blocks_(std::make_unique<KeptBlocks>(kept_bytes_max)) {}

Status LeafBytes::ReadInto(size_t leaf, uint64_t offset,
                           std::span<char> target) const {
  const LeafInfo& info = checkpoint_->leaves()[leaf];
  const LeafBlocks cut =
      CutLeaf(info.shape, info.chunk_shape, DTypeBytes(*info.dtype),
              std::min(kBlockBytesTarget, block_bytes_max_), block_bytes_max_);
  while (!target.empty()) {
    const uint64_t before = offset / cut.axis_bytes;
    const uint64_t in_axis = offset % cut.axis_bytes;
    const uint64_t in_block_number = in_axis / cut.block_bytes();
    const uint64_t in_block = in_axis % cut.block_bytes();
    const uint64_t block_bytes =
        std::min(cut.block_bytes(),
                 cut.axis_bytes - in_block_number * cut.block_bytes());
    const uint64_t number = before * cut.blocks_per_axis + in_block_number;
    const auto read = [&](Buffer& buffer) {
      return ReadBlock(leaf, cut, number, {buffer.data(), block_bytes});
    };
    HF_ASSIGN_OR_RETURN(
        const KeptBlocks::Block block,
        blocks_->Get(KeyOf(0, leaf, number), block_bytes, read));
    const size_t count =
        std::min<uint64_t>(target.size(), block_bytes - in_block);
    std::memcpy(target.data(), block->data() + in_block, count);
    target = target.subspan(count);
    offset += count;
  }
  return Status();
}

Status LeafBytes::ReadBlock(size_t leaf, const LeafBlocks& cut, uint64_t number,
                            std::span<char> target) const {
  const LeafInfo& info = checkpoint_->leaves()[leaf];
  ReadRequest request;
  request.leaf = leaf;
  request.origin.assign(info.shape.size(), 0);
  Shape shape = info.shape;
  if (!shape.empty()) {
    const int64_t row = number % cut.blocks_per_axis * cut.row_count;
    request.origin[cut.axis] = row;
    shape[cut.axis] = std::min(cut.row_count, info.shape[cut.axis] - row);
    uint64_t before = number / cut.blocks_per_axis;
    for (size_t axis = cut.axis; axis-- > 0;) {
      request.origin[axis] = before % info.shape[axis];
      before /= info.shape[axis];
      shape[axis] = 1;
    }
  }
  const size_t element_bytes = DTypeBytes(*info.dtype);
  request.target = {*info.dtype, target.data(), shape,
                    ContiguousStrides(shape, element_bytes)};
  return checkpoint_->ReadInto({request}, run_).status();
}

}  // namespace holdfast
