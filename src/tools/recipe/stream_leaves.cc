#include "tools/recipe/stream_leaves.h"

#include <algorithm>

#include "ground/base/status_macros.h"
#include "ground/run/run.h"
#include "ground/tensor/copy.h"

namespace holdfast {
namespace {

// The maximum sizes of one piece, and of all pieces read together.
constexpr uint64_t kPieceBytesMax = uint64_t{4} << 20;
constexpr uint64_t kBatchBytesMax = uint64_t{32} << 20;
constexpr size_t kBatchPieceCountMax = 4096;

// Elements that are read together, and their target.
struct LeafPiece {
  const SourceStack* stack = nullptr;
  const ArrayView* target = nullptr;
  size_t array = 0;  // index of the source array
  PlacedBox atoms;   // their positions in the target
  Box box;           // around them, in the source array
  Array elements;    // of the box
  Box scale_box;
  Array scales;
};

// Returns the box of scales that a box of elements needs.
Box ScaleBox(const ScaleArrays& scales, const Shape& scale_shape,
             const Box& box) {
  if (scales.is_single) return BoxOf(scale_shape);
  Box part;
  for (size_t d = 0; d < box.shape.size(); ++d) {
    const int64_t first = box.origin[d] / scales.block[d];
    const int64_t last = (box.origin[d] + box.shape[d] - 1) / scales.block[d];
    part.origin.push_back(first);
    part.shape.push_back(last - first + 1);
  }
  return part;
}

// Multiplies `count` elements along the last axis, starting at index `first`,
// by the scales of their blocks. `scales` begins with the first block's scale.
void ScaleRow(float* row, int64_t count, int64_t first, int64_t block,
              const float* scales) {
  for (int64_t i = 0; i < count;) {
    const int64_t end = std::min(count, i + block - (first + i) % block);
    const float scale = *scales++;
    for (; i < end; ++i) row[i] *= scale;
  }
}

void ApplyScales(LeafPiece& piece, const ScaleArrays& of) {
  float* const elements =
      reinterpret_cast<float*>(piece.elements.mutable_view().data);
  const float* const scales =
      reinterpret_cast<const float*>(piece.scales.view().data);
  const int64_t count = piece.elements.element_count();
  if (of.is_single || piece.box.shape.empty()) {
    for (int64_t i = 0; i < count; ++i) elements[i] *= scales[0];
    return;
  }
  const size_t last = piece.box.shape.size() - 1;
  const int64_t row_count = piece.box.shape[last];
  Shape at(last, 0);  // of the row, in the box
  for (int64_t i = 0; i < count; i += row_count) {
    int64_t scale_row = 0;
    for (size_t d = 0; d < last; ++d) {
      const int64_t block = (piece.box.origin[d] + at[d]) / of.block[d];
      scale_row = scale_row * piece.scale_box.shape[d] + block -
                  piece.scale_box.origin[d];
    }
    ScaleRow(elements + i, row_count, piece.box.origin[last], of.block[last],
             scales + scale_row * piece.scale_box.shape[last]);
    for (size_t d = last; d-- > 0;) {
      if (++at[d] < piece.box.shape[d]) break;
      at[d] = 0;
    }
  }
}

// Returns the dtype in which elements are read: float32 if they must be scaled.
DType ScratchDType(const SourceStack& stack) {
  return stack.scales ? DType::kFloat32 : stack.dtype;
}

uint64_t BytesAround(const SourceStack& stack, const Box& atoms) {
  const Box box = BoxAround(stack.map.source, stack.map.sizes, atoms);
  return ElementCount(box.shape) * DTypeBytes(ScratchDType(stack));
}

// Returns the outermost source atom along which to halve the box, or the number
// of atoms if the box is already one piece of one array.
size_t AtomToHalve(const SourceStack& stack, const Box& atoms,
                   uint64_t piece_bytes_max) {
  for (const size_t atom : stack.map.stacked) {
    if (atoms.shape[atom] > 1) return atom;
  }
  if (BytesAround(stack, atoms) > piece_bytes_max) {
    for (const auto& axis : stack.map.source) {
      for (const size_t atom : axis) {
        if (atoms.shape[atom] > 1) return atom;
      }
    }
  }
  return stack.map.sizes.size();
}

// Scales a piece's elements and copies them to the target. Rounds them to the
// leaf's dtype before a conversion to the requested dtype, as a read of the
// leaf would.
Status PlacePiece(LeafPiece& piece) {
  const SourceStack& stack = *piece.stack;
  if (stack.scales) ApplyScales(piece, *stack.scales);
  const Shape& shape = piece.atoms.box.shape;
  const DType scratch = ScratchDType(stack);
  const ConstArrayView elements{
      scratch, piece.elements.view().data, shape,
      AtomStrides(stack.map.source, stack.map.sizes,
                  ContiguousStrides(piece.box.shape, DTypeBytes(scratch)))};
  const ArrayView target{piece.target->dtype,
                         piece.target->data + piece.atoms.offset, shape,
                         piece.atoms.strides};
  if (scratch == stack.dtype || target.dtype == stack.dtype) {
    ConvertStrided(elements, target);
    return Status();
  }
  HF_ASSIGN_OR_RETURN(Array rounded, Array::Allocate(stack.dtype, shape));
  ConvertStrided(elements, rounded.mutable_view());
  ConvertStrided(rounded.view(), target);
  return Status();
}

// Collects pieces, and reads them when there are enough.
class PieceStream {
 public:
  PieceStream(const Checkpoint& source, const RunOptions& options, Stats& stats)
      : source_(source), options_(options), stats_(stats), run_(options) {
    if (options.memory_bytes > 0) {
      batch_bytes_max_ = std::min(kBatchBytesMax, options.memory_bytes);
    }
    piece_bytes_max_ = std::min(kPieceBytesMax, batch_bytes_max_);
  }

  // Cuts the box into pieces that fit, and adds these in the source's order.
  Status Add(const SourceStack& stack, const ArrayView& target,
             PlacedBox atoms) {
    std::vector<PlacedBox> waiting = {std::move(atoms)};
    while (!waiting.empty()) {
      PlacedBox part = std::move(waiting.back());
      waiting.pop_back();
      const size_t atom = AtomToHalve(stack, part.box, piece_bytes_max_);
      if (atom == stack.map.sizes.size()) {
        HF_RETURN_IF_ERROR(AddPiece(stack, target, std::move(part)));
        continue;
      }
      const int64_t half = part.box.shape[atom] / 2;
      PlacedBox second = part;
      second.box.origin[atom] += half;
      second.box.shape[atom] -= half;
      second.offset += half * part.strides[atom];
      part.box.shape[atom] = half;
      waiting.push_back(std::move(second));
      waiting.push_back(std::move(part));
    }
    return Status();
  }

  // Reads the collected pieces.
  Status Flush() {
    std::vector<ReadRequest> requests;
    for (LeafPiece& piece : pieces_) {
      HF_RETURN_IF_ERROR(Request(piece, requests));
    }
    HF_ASSIGN_OR_RETURN(const Stats more, source_.ReadInto(requests, options_));
    stats_.Add(more);
    HF_RETURN_IF_ERROR(run_.executor().ParallelFor(
        pieces_.size(), [&](size_t i, int) { return PlacePiece(pieces_[i]); },
        &run_.cancel()));
    pieces_.clear();
    gathered_bytes_ = 0;
    return Status();
  }

 private:
  Status AddPiece(const SourceStack& stack, const ArrayView& target,
                  PlacedBox atoms) {
    const uint64_t bytes = BytesAround(stack, atoms.box);
    if (!pieces_.empty() && (gathered_bytes_ + bytes > batch_bytes_max_ ||
                             pieces_.size() >= kBatchPieceCountMax)) {
      HF_RETURN_IF_ERROR(Flush());
    }
    gathered_bytes_ += bytes;
    LeafPiece piece;
    piece.stack = &stack;
    piece.target = &target;
    piece.array = ArrayNumber(stack.map, atoms.box.origin);
    piece.box = BoxAround(stack.map.source, stack.map.sizes, atoms.box);
    piece.atoms = std::move(atoms);
    pieces_.push_back(std::move(piece));
    return Status();
  }

  Status Request(LeafPiece& piece, std::vector<ReadRequest>& requests) const {
    const SourceStack& stack = *piece.stack;
    HF_ASSIGN_OR_RETURN(piece.elements,
                        Array::Allocate(ScratchDType(stack), piece.box.shape));
    requests.push_back({stack.leaves[piece.array], piece.box.origin,
                        piece.elements.mutable_view()});
    if (!stack.scales) return Status();
    const size_t leaf = stack.scales->leaves[piece.array];
    piece.scale_box =
        ScaleBox(*stack.scales, source_.leaves()[leaf].shape, piece.box);
    HF_ASSIGN_OR_RETURN(
        piece.scales, Array::Allocate(DType::kFloat32, piece.scale_box.shape));
    requests.push_back(
        {leaf, piece.scale_box.origin, piece.scales.mutable_view()});
    return Status();
  }

  const Checkpoint& source_;
  const RunOptions& options_;
  Stats& stats_;
  Run run_;
  uint64_t batch_bytes_max_ = kBatchBytesMax;
  uint64_t piece_bytes_max_ = kPieceBytesMax;
  std::vector<LeafPiece> pieces_;
  uint64_t gathered_bytes_ = 0;
};

}  // namespace

Status ForEachAtomBoxOf(const RecipeLeaf& leaf, const Shape& origin,
                        const ArrayView& target,
                        const std::function<Status(PlacedBox)>& fn) {
  const AxisMap& map = leaf.stack->map;
  return ForEachAtomBox(map.target, map.sizes,
                        {{origin, target.shape}, target.strides, 0},
                        [&](PlacedBox atoms) {
                          for (size_t i = 0; i < map.split.size(); ++i) {
                            atoms.box.origin[map.split[i]] = leaf.split[i];
                          }
                          return fn(std::move(atoms));
                        });
}

size_t ArrayNumber(const AxisMap& map, const Shape& atoms_origin) {
  size_t number = 0;
  for (const size_t atom : map.stacked) {
    number = number * map.sizes[atom] + atoms_origin[atom];
  }
  return number;
}

Status StreamLeaves(const Checkpoint& source,
                    const std::vector<RecipeLeaf>& leaves,
                    const std::vector<const ReadRequest*>& requests,
                    const RunOptions& run, Stats& stats) {
  if (requests.empty()) return Status();
  PieceStream stream(source, run, stats);
  for (const ReadRequest* request : requests) {
    const RecipeLeaf& leaf = leaves[request->leaf];
    HF_RETURN_IF_ERROR(ForEachAtomBoxOf(
        leaf, request->origin, request->target, [&](PlacedBox atoms) {
          return stream.Add(*leaf.stack, request->target, std::move(atoms));
        }));
  }
  return stream.Flush();
}

}  // namespace holdfast
