// Maps the axes of source arrays to those of target arrays: parses patterns as
// einops writes them ("(heads d) e -> e layer heads d"), and carries boxes from
// one side to the other.
//
// Both sides are cut into atoms: axes that neither side divides. An array's
// axis is a list of atoms, of which the last varies fastest (the axis "1" has
// none). A placeholder is an atom that numbers arrays on one side and is an
// axis on the other. A box is translated from the axes of one side to atoms,
// and from these to the axes of the other side; both reading and referring to
// stored bytes work like this.
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

// Every name must occur at most once on a side, and "..." only outside of
// groups; a side has at most kRankMax axes and names.
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
  // The axes of all source arrays as one array: first the atoms that number
  // them.
  AxisAtoms NumberedSource() const;
};

struct KnownAxes {
  Shape source_shape;  // of one source array
  // The placeholders that number source arrays, and the number of values of
  // each.
  std::vector<std::pair<std::string, int64_t>> stacked;
  // The placeholders that number target arrays; a count of -1 means unknown.
  std::vector<std::pair<std::string, int64_t>> split;
  std::map<std::string, int64_t> sizes;
};

// The map that leaves arrays unchanged.
AxisMap IdentityMap(const Shape& shape);
// REQUIRES: every name of `pattern` and of the placeholders occurs once on each
// side. The target has at most kRankMax axes, there are at most kRankMax atoms,
// and the target's shape does not overflow.
Result<AxisMap> ResolveAxes(const AxisPattern& pattern, const KnownAxes& known);

// A box, and where its elements are stored: `offset` is that of the first
// element.
struct PlacedBox {
  Box box;
  Shape strides;
  int64_t offset = 0;
};

// Calls fn with boxes of atoms that together cover `placed`, a box of the axes
// `axes`, in C order, until fn fails. In these, atoms that belong to no axis
// are at 0 with extent 1. REQUIRES: the box has elements and is inside the
// array.
Status ForEachAtomBox(const AxisAtoms& axes, const Shape& sizes,
                      const PlacedBox& placed,
                      const std::function<Status(PlacedBox)>& fn);
// The number of these boxes; saturates.
uint64_t CountAtomBoxes(const AxisAtoms& axes, const Shape& sizes,
                        const Box& box);

// How a box of atoms is cut into boxes of axes.
struct AxisCut {
  // The atoms that are iterated one index at a time, in the order of the axes:
  // their steps are not neighbours on their axis, or are stored elsewhere than
  // their axis' stride implies.
  std::vector<size_t> atoms;
  uint64_t box_count = 1;  // saturates
  // No uncut atom of an axis outside of a cut one has more than one step, so
  // the boxes follow one after the other.
  bool is_outermost = true;
};
// The first `numbering_count` axes number arrays: they are always cut, and do
// not affect is_outermost.
AxisCut CutForAxes(const AxisAtoms& axes, const Shape& sizes,
                   const PlacedBox& atoms, size_t numbering_count = 0);
// Calls fn with each box of axes, until fn fails.
Status ForEachAxisBox(const AxisAtoms& axes, const Shape& sizes,
                      const PlacedBox& atoms, const AxisCut& cut,
                      const std::function<Status(PlacedBox)>& fn);

// The smallest box of axes that contains a box of atoms.
Box BoxAround(const AxisAtoms& axes, const Shape& sizes, const Box& atoms);
// The strides of the atoms in an array with these strides; 0 for an atom that
// belongs to no axis.
Shape AtomStrides(const AxisAtoms& axes, const Shape& sizes,
                  const Shape& strides);

}  // namespace holdfast
