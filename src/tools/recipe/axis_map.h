// Maps the axes of source arrays to those of target arrays. Parses patterns in
// the syntax of einops ("(heads d) e -> e layer heads d"), and translates boxes
// from one side to the other.
//
// Both sides are cut into atoms: axes that neither side divides further. An
// array's axis is a list of atoms; the last varies fastest. (The axis "1" has
// no atoms.) A placeholder is an atom that numbers arrays on one side and is an
// axis on the other. A box is translated from the axes of one side to atoms,
// and from atoms to the axes of the other side. Reading elements and referring
// to stored bytes both work like this.
// Thread-safety: pure functions and values.
// Units: elements; strides and offsets in bytes.
// Errors: InvalidArgument, with what was given and what is expected.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ground/tensor/box.h"
#include "holdfast/status.h"

namespace holdfast {

// The names of each axis; "..." is an axis with this single name.
using AxisNames = std::vector<std::vector<std::string>>;

struct AxisPattern {
  AxisNames source;
  AxisNames target;
};

// Parses a pattern. A name may occur only once on a side, and "..." only
// outside groups. A side has at most kRankMax axes and names.
Result<AxisPattern> ParseAxes(std::string_view text);

// The atoms of each axis, as indices into AxisMap::sizes.
using AxisAtoms = std::vector<std::vector<size_t>>;

struct AxisMap {
  Shape sizes;  // of the atoms
  AxisAtoms source;
  AxisAtoms target;
  // The atoms that number the source arrays, and those that number the target
  // arrays, in the order of their placeholders.
  std::vector<size_t> stacked;
  std::vector<size_t> split;

  Shape source_shape() const;  // of one array
  Shape target_shape() const;
  // Returns the axes of all source arrays as a single array, whose first axes
  // are the atoms that number the arrays.
  AxisAtoms NumberedSource() const;
};

struct KnownAxes {
  Shape source_shape;  // of one source array
  // The placeholders that number source arrays, and how many values each has.
  std::vector<std::pair<std::string, int64_t>> stacked;
  // The placeholders that number target arrays; a count of -1 means unknown.
  std::vector<std::pair<std::string, int64_t>> split;
  std::map<std::string, int64_t> sizes;
};

// Returns the map that leaves arrays unchanged.
AxisMap IdentityMap(const Shape& shape);
// Resolves the sizes of all atoms. Fails unless every name of `pattern` and of
// the placeholders occurs once on each side, the target has at most kRankMax
// axes, there are at most kRankMax atoms, and the target's shape does not
// overflow.
Result<AxisMap> ResolveAxes(const AxisPattern& pattern, const KnownAxes& known);

// A box, and where its elements are stored. `offset` is the first element's.
struct PlacedBox {
  Box box;
  Shape strides;
  int64_t offset = 0;
};

// Calls fn with boxes of atoms that together cover `placed`, a box of `axes`,
// in C order, until fn fails. Atoms that belong to none of the axes have index
// 0 and extent 1 in these boxes. REQUIRES: the box has elements and is inside
// the array.
Status ForEachAtomBox(const AxisAtoms& axes, const Shape& sizes,
                      const PlacedBox& placed,
                      const std::function<Status(PlacedBox)>& fn);
// Returns the number of boxes that ForEachAtomBox makes; saturates.
uint64_t CountAtomBoxes(const AxisAtoms& axes, const Shape& sizes,
                        const Box& box);

// A way to cut a box of atoms into boxes of axes.
struct AxisCut {
  // The atoms of which each box has a single index, in the order of the axes.
  // An atom must be cut if its indices are not neighbors on their axis, or are
  // not stored at the axis' stride.
  std::vector<size_t> atoms;
  uint64_t box_count = 1;  // saturates
  // No axis outside that of a cut atom has an uncut atom with several indices,
  // so the boxes are stored one after the other.
  bool is_outermost = true;
};
// Determines where to cut. The first `numbering_count` axes number arrays: they
// are always cut, and do not affect is_outermost.
AxisCut CutForAxes(const AxisAtoms& axes, const Shape& sizes,
                   const PlacedBox& atoms, size_t numbering_count = 0);
// Calls fn with each box of axes, until fn fails.
Status ForEachAxisBox(const AxisAtoms& axes, const Shape& sizes,
                      const PlacedBox& atoms, const AxisCut& cut,
                      const std::function<Status(PlacedBox)>& fn);

// Returns the smallest box of axes that contains a box of atoms.
Box BoxAround(const AxisAtoms& axes, const Shape& sizes, const Box& atoms);
// Returns the strides of the atoms in an array whose axes have `strides`; 0 for
// an atom that belongs to no axis.
Shape AtomStrides(const AxisAtoms& axes, const Shape& sizes,
                  const Shape& strides);

}  // namespace holdfast
