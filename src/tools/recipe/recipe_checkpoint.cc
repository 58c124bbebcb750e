#include "tools/recipe/recipe_checkpoint.h"

#include <algorithm>

#include "engine/checkpoint/stored_extents.h"
#include "engine/restore/extent_read.h"
#include "ground/base/no_throw.h"
#include "ground/base/status_macros.h"
#include "ground/run/run.h"
#include "tools/recipe/plan.h"
#include "tools/recipe/stream_leaves.h"

namespace holdfast {
namespace {

// The maximum number of boxes of one array that are requested from the source
// one by one. An array with more boxes is streamed.
constexpr uint64_t kBoxesAskedMax = 4096;
constexpr uint64_t kRequestsMax = uint64_t{1} << 16;
constexpr uint64_t kExtentsMax = uint64_t{1} << 16;

// Returns the strides, or an empty shape if they are those of C order.
Shape StridesUnlessC(const Shape& shape, Shape strides, size_t element_bytes) {
  const Shape c_order = ContiguousStrides(shape, element_bytes);
  for (size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] > 1 && strides[d] != c_order[d]) return strides;
  }
  return {};
}

// Combines the extents of the source arrays into the extents of one target.
class ExtentMapper {
 public:
  ExtentMapper(const RecipeLeaf& leaf, LeafExtents& mapped)
      : leaf_(leaf),
        map_(leaf.stack->map),
        element_bytes_(DTypeBytes(leaf.stack->dtype)),
        mapped_(mapped) {}

  // Adds the target's part of one extent of a source array.
  void Add(size_t array, const Extent& extent) {
    if (IsEmpty(extent.box)) return;
    if (CountAtomBoxes(map_.source, map_.sizes, extent.box) > kExtentsMax) {
      return Refuse(kExtentsMax);
    }
    const PlacedBox placed{extent.box, ExtentStrides(extent, element_bytes_),
                           0};
    (void)ForEachAtomBox(map_.source, map_.sizes, placed, [&](PlacedBox atoms) {
      if (Number(array, atoms)) AddAtoms(extent, atoms);
      return Status();
    });
  }

 private:
  void Refuse(uint64_t count) {
    mapped_.why_not =
        "its elements lie in more than " + std::to_string(count) + " places";
  }

  // Sets the atoms that number arrays, and restricts the box to this target.
  // Returns false if none of the box belongs to the target.
  bool Number(size_t array, PlacedBox& atoms) const {
    for (size_t i = map_.stacked.size(); i-- > 0;) {
      const size_t size = map_.sizes[map_.stacked[i]];
      atoms.box.origin[map_.stacked[i]] = array % size;
      array /= size;
    }
    for (size_t i = 0; i < map_.split.size(); ++i) {
      const size_t atom = map_.split[i];
      const int64_t steps = leaf_.split[i] - atoms.box.origin[atom];
      if (steps < 0 || steps >= atoms.box.shape[atom]) return false;
      atoms.box.origin[atom] = leaf_.split[i];
      atoms.box.shape[atom] = 1;
      atoms.offset += steps * atoms.strides[atom];
    }
    return true;
  }

  void AddAtoms(const Extent& extent, const PlacedBox& atoms) {
    const AxisCut cut = CutForAxes(map_.target, map_.sizes, atoms);
    if (mapped_.extents.size() + cut.box_count > kExtentsMax) {
      return Refuse(kExtentsMax);
    }
    (void)ForEachAxisBox(
        map_.target, map_.sizes, atoms, cut, [&](PlacedBox box) {
          const uint64_t offset = extent.offset + box.offset;
          Shape strides = StridesUnlessC(box.box.shape, std::move(box.strides),
                                         element_bytes_);
          mapped_.extents.push_back({std::move(box.box), extent.file, offset,
                                     std::move(strides), extent.is_big_endian});
          return Status();
        });
  }

  const RecipeLeaf& leaf_;
  const AxisMap& map_;
  const size_t element_bytes_;
  LeafExtents& mapped_;
};

class RecipeCheckpoint final : public Checkpoint, public StoredExtents {
 public:
  RecipeCheckpoint(std::unique_ptr<Checkpoint> source, RecipePlan plan)
      : source_(std::move(source)), leaves_(std::move(plan.leaves)) {
    info_ = source_->info();
    // The leaves form a single tree, whichever items they came from.
    info_.items = {{"", ""}};
    info_.value_metadata_tree.clear();
    infos_ = std::move(plan.infos);
  }

  Result<LeafExtents> ExtentsOf(size_t leaf) const override {
    return CatchBadAlloc([&] { return MapExtents(leaves_[leaf]); });
  }

  const ValueDigest* DigestOf(const std::string& file, uint64_t offset,
                              uint64_t byte_count) const override {
    return holdfast::DigestOf(*source_, file, offset, byte_count);
  }

 protected:
  Result<Stats> DoReadInto(const std::vector<ReadRequest>& requests,
                           const RunOptions& run) const override {
    Stopwatch total;
    std::vector<ReadRequest> asked;
    std::vector<const ReadRequest*> streamed;
    for (const ReadRequest& request : requests) {
      if (CanAsk(request)) {
        HF_RETURN_IF_ERROR(Ask(request, asked));
      } else {
        streamed.push_back(&request);
      }
    }
    HF_ASSIGN_OR_RETURN(Stats stats, source_->ReadInto(asked, run));
    HF_RETURN_IF_ERROR(StreamLeaves(*source_, leaves_, streamed, run, stats));
    stats.total_seconds = total.Lap();
    return stats;
  }

  Result<std::string> DoReadText(size_t leaf) const override {
    return source_->ReadText(leaves_[leaf].stack->leaves[0]);
  }

 private:
  // Returns true if the source can read the elements directly into the target,
  // in boxes that are stored one after the other.
  bool CanAsk(const ReadRequest& request) const {
    const RecipeLeaf& leaf = leaves_[request.leaf];
    const SourceStack& stack = *leaf.stack;
    const bool is_cast_twice = stack.source_dtype != stack.dtype &&
                               stack.dtype != request.target.dtype;
    if (stack.scales || is_cast_twice) return false;
    const AxisMap& map = stack.map;
    const Box box{request.origin, request.target.shape};
    if (CountAtomBoxes(map.target, map.sizes, box) > kBoxesAskedMax) {
      return false;
    }
    const AxisAtoms axes = map.NumberedSource();
    uint64_t box_count = 0, request_count = 0;
    bool can_ask = true;
    (void)ForEachAtomBoxOf(
        leaf, request.origin, request.target, [&](const PlacedBox& atoms) {
          const AxisCut cut =
              CutForAxes(axes, map.sizes, atoms, map.stacked.size());
          uint64_t array_count = 1;
          for (const size_t atom : map.stacked) {
            array_count *= atoms.box.shape[atom];
          }
          request_count += cut.box_count;
          box_count += cut.box_count / array_count;
          const bool is_few =
              cut.box_count == array_count ||
              (box_count <= kBoxesAskedMax && request_count <= kRequestsMax);
          can_ask = can_ask && cut.is_outermost && is_few;
          return can_ask ? Status() : CancelledError("enough is known");
        });
    return can_ask;
  }

  Status Ask(const ReadRequest& request,
             std::vector<ReadRequest>& asked) const {
    const RecipeLeaf& leaf = leaves_[request.leaf];
    const AxisMap& map = leaf.stack->map;
    const AxisAtoms axes = map.NumberedSource();
    const size_t numbering = map.stacked.size();
    const auto add = [&](const PlacedBox& placed) {
      const auto without = [&](const Shape& shape) {
        return Shape(shape.begin() + numbering, shape.end());
      };
      size_t array = 0;
      for (size_t i = 0; i < numbering; ++i) {
        array = array * map.sizes[map.stacked[i]] + placed.box.origin[i];
      }
      asked.push_back(
          {leaf.stack->leaves[array],
           without(placed.box.origin),
           {request.target.dtype, request.target.data + placed.offset,
            without(placed.box.shape), without(placed.strides)}});
      return Status();
    };
    return ForEachAtomBoxOf(
        leaf, request.origin, request.target, [&](const PlacedBox& atoms) {
          return ForEachAxisBox(axes, map.sizes, atoms,
                                CutForAxes(axes, map.sizes, atoms, numbering),
                                add);
        });
  }

  Result<LeafExtents> MapExtents(const RecipeLeaf& leaf) const {
    const SourceStack& stack = *leaf.stack;
    LeafExtents mapped;
    if (stack.scales) {
      mapped.why_not = "dequantized";
    } else if (stack.source_dtype != stack.dtype) {
      mapped.why_not = "cast to " + std::string(DTypeName(stack.dtype));
    }
    ExtentMapper mapper(leaf, mapped);
    for (size_t i = 0; i < stack.leaves.size() && mapped.why_not.empty(); ++i) {
      HF_ASSIGN_OR_RETURN(LeafExtents of_array,
                          holdfast::ExtentsOf(*source_, stack.leaves[i]));
      if (!of_array.why_not.empty()) return of_array;
      if (IsAsItWas(stack)) return of_array;
      for (const Extent& extent : of_array.extents) {
        if (mapped.why_not.empty()) mapper.Add(i, extent);
      }
    }
    if (!mapped.why_not.empty()) mapped.extents.clear();
    return mapped;
  }

  static bool IsAsItWas(const SourceStack& stack) {
    const AxisMap& map = stack.map;
    return map.source == map.target && map.stacked.empty() && map.split.empty();
  }

  const std::unique_ptr<Checkpoint> source_;
  const std::vector<RecipeLeaf> leaves_;  // in the order of infos_
};

}  // namespace

Result<std::unique_ptr<Checkpoint>> WithRecipe(
    std::unique_ptr<Checkpoint> source, const Recipe& recipe,
    const RecipeOptions& options) {
  return CatchBadAlloc([&]() -> Result<std::unique_ptr<Checkpoint>> {
    Result<Recipe> used = options.reverse ? recipe.Reversed() : recipe;
    if (!used.ok()) return used.status();
    HF_ASSIGN_OR_RETURN(RecipePlan plan,
                        PlanRecipe(source->leaves(), used->rules(), options));
    return std::unique_ptr<Checkpoint>(
        std::make_unique<RecipeCheckpoint>(std::move(source), std::move(plan)));
  });
}

}  // namespace holdfast
