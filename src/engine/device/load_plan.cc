#include "engine/device/load_plan.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "engine/restore/restore_target.h"

namespace holdfast {
namespace {

// As large as a cache line, so that no element lies across two.
constexpr uint64_t kPieceAlignment = 64;
// Windows are filled with units of at most this part of a window, so that
// little of a window stays empty.
constexpr uint64_t kUnitsPerWindow = 4;

uint64_t PaddedBytes(const Box& box, DType dtype) {
  return (ElementBytes(box, dtype) + kPieceAlignment - 1) / kPieceAlignment *
         kPieceAlignment;
}

class LoadPlanner {
 public:
  LoadPlanner(const std::vector<WantedPart>& parts, uint64_t window_bytes)
      : parts_(parts),
        window_bytes_(window_bytes),
        unit_bytes_(window_bytes / kUnitsPerWindow) {}

  // Adds the parts [first, last), which are of this leaf.
  void AddLeaf(const LeafInfo& leaf, size_t first, size_t last) {
    chunk_shape_ = leaf.chunk_shape;
    // The parts of a leaf that does not say how it is cut are not independent.
    if (chunk_shape_.size() != leaf.shape.size()) chunk_shape_ = leaf.shape;
    is_raw_ = leaf.codecs == "none";
    std::vector<LoadPiece> pieces;
    for (size_t part = first; part < last; ++part) {
      pieces.push_back({part, parts_[part].box, 0});
    }
    Cut(std::move(pieces), /*is_inside_chunk=*/false);
  }

  std::vector<LoadWindow> Finish() {
    if (!window_.pieces.empty()) Close();
    return std::move(windows_);
  }

 private:
  struct Split {
    size_t dim = 0;
    int64_t at = 0;  // the first element of the second half
    bool is_inside_chunk = false;
  };

  uint64_t BytesOf(const std::vector<LoadPiece>& pieces) const {
    uint64_t byte_count = 0;
    for (const LoadPiece& piece : pieces) {
      byte_count += PaddedBytes(piece.box, parts_[piece.part].dtype);
    }
    return byte_count;
  }

  // Halves the pieces, between chunks, until they are small enough; outer
  // dimensions first, so that the units are in the order of the chunks.
  void Cut(std::vector<LoadPiece> pieces, bool is_inside_chunk) {
    const uint64_t byte_count = BytesOf(pieces);
    Box hull = pieces.front().box;
    for (const LoadPiece& piece : pieces) hull = Hull(hull, piece.box);
    // A raw chunk that fits in a window stays whole, for its checksum.
    const bool may_cut_chunk =
        is_raw_ && (is_inside_chunk || byte_count > window_bytes_);
    std::optional<Split> split;
    if (byte_count > unit_bytes_) split = SplitOf(hull, may_cut_chunk);
    if (!split) return AddUnit(std::move(pieces), byte_count);
    for (const bool is_second : {false, true}) {
      std::vector<LoadPiece> half;
      for (const LoadPiece& piece : pieces) {
        Box box = hull;
        const int64_t end = hull.origin[split->dim] + hull.shape[split->dim];
        box.origin[split->dim] =
            is_second ? split->at : hull.origin[split->dim];
        box.shape[split->dim] =
            (is_second ? end : split->at) - box.origin[split->dim];
        const std::optional<Box> common = Intersect(piece.box, box);
        if (common) half.push_back({piece.part, *common, 0});
      }
      Cut(std::move(half), split->is_inside_chunk);
    }
  }

  // Returns nullopt for a box that must not be cut.
  std::optional<Split> SplitOf(const Box& box, bool may_cut_chunk) const {
    for (size_t dim = 0; dim < box.shape.size(); ++dim) {
      const int64_t chunk = std::max<int64_t>(1, chunk_shape_[dim]);
      const int64_t first = box.origin[dim] / chunk;
      const int64_t last = (box.origin[dim] + box.shape[dim] - 1) / chunk;
      if (first != last) return Split{dim, (first + last + 1) / 2 * chunk};
    }
    for (size_t dim = 0; may_cut_chunk && dim < box.shape.size(); ++dim) {
      if (box.shape[dim] == 1) continue;
      return Split{dim, box.origin[dim] + box.shape[dim] / 2, true};
    }
    return std::nullopt;
  }

  void AddUnit(std::vector<LoadPiece> pieces, uint64_t byte_count) {
    const bool fits = window_.byte_count + byte_count <= window_bytes_;
    if (!fits && !window_.pieces.empty()) Close();
    for (LoadPiece& piece : pieces) {
      piece.offset = window_.byte_count;
      window_.byte_count += PaddedBytes(piece.box, parts_[piece.part].dtype);
      window_.pieces.push_back(std::move(piece));
    }
  }

  void Close() { windows_.push_back(std::exchange(window_, {})); }

  const std::vector<WantedPart>& parts_;
  const uint64_t window_bytes_;
  const uint64_t unit_bytes_;
  Shape chunk_shape_;  // of the leaf being added
  bool is_raw_ = false;
  LoadWindow window_;
  std::vector<LoadWindow> windows_;
};

}  // namespace

std::string NameLeaves(const LeafInfo& first, const LeafInfo& last) {
  return first.name == last.name ? "leaf " + first.name
                                 : "leaves " + first.name + " to " + last.name;
}

uint64_t ElementBytes(const Box& box, DType dtype) {
  return static_cast<uint64_t>(ElementCount(box.shape)) * DTypeBytes(dtype);
}

std::vector<LoadWindow> PlanLoad(const std::vector<LeafInfo>& leaves,
                                 const std::vector<WantedPart>& parts,
                                 uint64_t window_bytes) {
  LoadPlanner planner(parts, window_bytes);
  for (size_t first = 0; first < parts.size();) {
    size_t last = first + 1;
    while (last < parts.size() && parts[last].leaf == parts[first].leaf) {
      ++last;
    }
    planner.AddLeaf(leaves[parts[first].leaf], first, last);
    first = last;
  }
  return planner.Finish();
}

}  // namespace holdfast
