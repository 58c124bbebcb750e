// How the axes of source arrays become those of target arrays: patterns as
// einops writes them ("(heads d) e -> e layer heads d"), and boxes carried from
// one side to the other.
//
// Both sides are cut into atoms: axes that neither side divides. An array's
// axis is a list of atoms, the last fastest ("1": none). An atom that is a
// placeholder numbers arrays on one side and is an axis on the other. A box
// goes from the axes of one side to the atoms, and from there to the axes of
// the other; reading and referring to stored bytes both go this way.
// Thread-safety: pure functions and values.
// Units: elements; strides and offsets in bytes.
// Errors: InvalidArgument, saying what was got and what is wanted.
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

// The names of each axis; "..." is an axis of this one name.
using AxisNames = std::vector<std::vector<std::string>>;

struct AxisPattern {
  AxisNames source;
  AxisNames target;
};

// Every name stands at most once on a side, "..." outside of groups; at most
// kRankMax axes and names a side.
Result<AxisPattern> ParseAxes(std::string_view text);

// The atoms of each axis, as indices into AxisMap::sizes.
using AxisAtoms = std::vector<std::vector<size_t>>;

struct AxisMap {
  Shape sizes;  // of the atoms
  AxisAtoms source;
  AxisAtoms target;
  // The atoms that number the source arrays, and those that number the target
  // arrays, in the order of the placeholders.
  std::vector<size_t> stacked;
  std::vector<size_t> split;

  Shape source_shape() const;  // of one array
  Shape target_shape() const;
  // The axes of all source arrays as one: first those that number them.
  AxisAtoms NumberedSource() const;
};

struct KnownAxes {
  Shape source_shape;  // of one source array
  // The placeholders that number source arrays, and how many values each has.
  std::vector<std::pair<std::string, int64_t>> stacked;
  // Those that number target arrays; a count of -1: not known.
  std::vector<std::pair<std::string, int64_t>> split;
  std::map<std::string, int64_t> sizes;
};

// The map of arrays as they are.
AxisMap IdentityMap(const Shape& shape);
// REQUIRES: every name of `pattern` and of the placeholders stands once on
// either side. The target has at most kRankMax axes, there are at most kRankMax
// atoms, and the target's shape does not overflow.
Result<AxisMap> ResolveAxes(const AxisPattern& pattern, const KnownAxes& known);

// A box, and where its elements lie: `offset` is its first element's.
struct PlacedBox {
  Box box;
  Shape strides;
  int64_t offset = 0;
};

// Calls fn with boxes of atoms that together are `placed`, a box of the axes
// `axes`, in C order, until fn fails. Atoms of no axis are 0 and of extent 1
// there. REQUIRES: the box has elements and lies inside.
Status ForEachAtomBox(const AxisAtoms& axes, const Shape& sizes,
                      const PlacedBox& placed,
                      const std::function<Status(PlacedBox)>& fn);
// How many there are; saturates.
uint64_t CountAtomBoxes(const AxisAtoms& axes, const Shape& sizes,
                        const Box& box);

// How a box of atoms becomes boxes of axes.
struct AxisCut {
  // The atoms that are taken one step at a time, in the order of the axes:
  // those whose steps are not neighbours on their axis, or lie elsewhere than
  // their axis' stride says.
  std::vector<size_t> atoms;
  uint64_t box_count = 1;  // saturates
  // No axis' atom outside of a cut one has more than one step: the boxes lie
  // one after the other.
  bool is_outermost = true;
};
// The first `numbering_count` axes number arrays: they are cut in any case, and
// do not count for is_outermost.
AxisCut CutForAxes(const AxisAtoms& axes, const Shape& sizes,
                   const PlacedBox& atoms, size_t numbering_count = 0);
// Calls fn with each of the boxes of axes, until it fails.
Status ForEachAxisBox(const AxisAtoms& axes, const Shape& sizes,
                      const PlacedBox& atoms, const AxisCut& cut,
                      const std::function<Status(PlacedBox)>& fn);

// The smallest box of the axes around a box of atoms.
Box BoxAround(const AxisAtoms& axes, const Shape& sizes, const Box& atoms);
// The strides of the atoms in an array that has these strides; 0 for an atom of
// no axis.
Shape AtomStrides(const AxisAtoms& axes, const Shape& sizes,
                  const Shape& strides);

}  // namespace holdfast
