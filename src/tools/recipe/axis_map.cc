#include "tools/recipe/axis_map.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <set>

#include "ground/base/status_macros.h"

namespace holdfast {
namespace {

constexpr std::string_view kRest = "...";

uint64_t SaturatingProduct(uint64_t a, uint64_t b) {
  uint64_t product = 0;
  if (!__builtin_mul_overflow(a, b, &product)) return product;
  return std::numeric_limits<uint64_t>::max();
}

// ----- patterns -------------------------------------------------------------

bool IsAxisName(std::string_view name) {
  const auto is_letter = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
  };
  return !name.empty() && is_letter(name[0]) &&
         std::all_of(name.begin(), name.end(), [&](char c) {
           return is_letter(c) || (c >= '0' && c <= '9');
         });
}

// Splits the text into "(", ")" and words.
std::vector<std::string_view> Tokens(std::string_view text) {
  constexpr std::string_view kEnds = " ()";
  std::vector<std::string_view> tokens;
  for (size_t i = 0; i < text.size();) {
    const bool is_mark = kEnds.find(text[i]) != std::string_view::npos;
    const size_t end =
        is_mark ? i + 1 : std::min(text.find_first_of(kEnds, i), text.size());
    if (text[i] != ' ') tokens.push_back(text.substr(i, end - i));
    i = end;
  }
  return tokens;
}

class SideParser {
 public:
  explicit SideParser(std::string_view side) : side_(side) {}

  Result<AxisNames> Parse() {
    for (const std::string_view token : Tokens(side_)) {
      HF_RETURN_IF_ERROR(Take(token));
    }
    if (is_inside_) return Refuse("a ( is not closed");
    if (axes_.size() > kRankMax || names_.size() > kRankMax) {
      return Refuse("more than " + std::to_string(kRankMax) + " axes");
    }
    return std::move(axes_);
  }

 private:
  Status Take(std::string_view token) {
    if (token == "(") {
      if (is_inside_) return Refuse("a ( inside another");
      is_inside_ = true;
      axes_.emplace_back();
    } else if (token == ")") {
      if (!is_inside_) return Refuse("a ) that closes nothing");
      is_inside_ = false;
    } else if (token == "1") {
      if (!is_inside_) axes_.emplace_back();
    } else {
      return TakeName(std::string(token));
    }
    return Status();
  }

  Status TakeName(std::string name) {
    if (name == kRest && is_inside_) return Refuse("... inside a group");
    if (name != kRest && !IsAxisName(name)) {
      return Refuse("\"" + name + "\" is not an axis's name");
    }
    if (!names_.insert(name).second) {
      return Refuse("axis " + name + " stands there twice");
    }
    if (!is_inside_) axes_.emplace_back();
    axes_.back().push_back(std::move(name));
    return Status();
  }

  Status Refuse(const std::string& why) const {
    return InvalidArgumentError("\"" + std::string(side_) + "\": " + why);
  }

  const std::string_view side_;
  AxisNames axes_;
  std::set<std::string> names_;
  bool is_inside_ = false;
};

// ----- sizes ----------------------------------------------------------------

std::string GroupText(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) {
    text += (text.empty() ? "" : " ") + name;
  }
  return names.size() == 1 ? text : names.empty() ? "1" : "(" + text + ")";
}

class AxisResolver {
 public:
  AxisResolver(const AxisPattern& pattern, const KnownAxes& known)
      : pattern_(pattern), known_(known), sizes_(known.sizes) {}

  Result<AxisMap> Resolve() {
    for (const auto* numbered : {&known_.stacked, &known_.split}) {
      for (const auto& [name, count] : *numbered) {
        if (count >= 0) HF_RETURN_IF_ERROR(Learn(name, count));
      }
    }
    HF_RETURN_IF_ERROR(ExpandRest());
    HF_RETURN_IF_ERROR(LearnFromShape());
    for (const auto& [name, count] : known_.stacked) {
      map_.stacked.push_back(AtomOf(name));
    }
    for (const auto& axis : source_) map_.source.push_back(AtomsOf(axis));
    for (const auto& axis : target_) map_.target.push_back(AtomsOf(axis));
    for (const auto& [name, count] : known_.split) {
      map_.split.push_back(AtomOf(name));
    }
    HF_RETURN_IF_ERROR(CheckLimits());
    return std::move(map_);
  }

 private:
  Status Learn(const std::string& name, int64_t size) {
    const auto [at, is_new] = sizes_.emplace(name, size);
    if (is_new || at->second == size) return Status();
    return InvalidArgumentError("axis " + name + " (got " +
                                std::to_string(size) + ", want " +
                                std::to_string(at->second) + ")");
  }

  // Replaces "..." by an axis for each axis that the pattern does not name.
  Status ExpandRest() {
    const size_t rank = known_.source_shape.size();
    const bool has_rest =
        std::any_of(pattern_.source.begin(), pattern_.source.end(), IsRest);
    const size_t named = pattern_.source.size() - (has_rest ? 1 : 0);
    if (has_rest ? rank < named : rank != named) {
      return InvalidArgumentError("the pattern is of arrays with " +
                                  std::string(has_rest ? "at least " : "") +
                                  std::to_string(named) + " axes (got shape " +
                                  ShapeToString(known_.source_shape) + ")");
    }
    source_ = WithRest(pattern_.source, rank - named);
    target_ = WithRest(pattern_.target, rank - named);
    return Status();
  }

  static bool IsRest(const std::vector<std::string>& axis) {
    return axis.size() == 1 && axis[0] == kRest;
  }

  static AxisNames WithRest(const AxisNames& axes, size_t count) {
    AxisNames expanded;
    for (const auto& axis : axes) {
      if (!IsRest(axis)) {
        expanded.push_back(axis);
        continue;
      }
      for (size_t i = 0; i < count; ++i) {
        expanded.push_back({std::string(kRest) + std::to_string(i)});
      }
    }
    return expanded;
  }

  Status LearnFromShape() {
    for (size_t d = 0; d < source_.size(); ++d) {
      HF_RETURN_IF_ERROR(LearnFromAxis(source_[d], known_.source_shape[d]));
    }
    return Status();
  }

  Status LearnFromAxis(const std::vector<std::string>& axis, int64_t extent) {
    uint64_t product = 1;
    const std::string* missing = nullptr;
    for (const std::string& name : axis) {
      const auto known = sizes_.find(name);
      if (known != sizes_.end()) {
        product = SaturatingProduct(product, known->second);
      } else if (missing != nullptr) {
        return InvalidArgumentError("the sizes of axes " + *missing + " and " +
                                    name + " of " + GroupText(axis) +
                                    " are not known (want one of them in "
                                    "\"sizes\", or set by the caller)");
      } else {
        missing = &name;
      }
    }
    const uint64_t size = static_cast<uint64_t>(extent);
    if (missing == nullptr && product == size) return Status();
    if (missing != nullptr && product != 0 && size % product == 0) {
      sizes_.emplace(*missing, static_cast<int64_t>(size / product));
      return Status();
    }
    return InvalidArgumentError("axis " + GroupText(axis) + " of shape " +
                                ShapeToString(known_.source_shape) + " (got " +
                                std::to_string(extent) + ", want " +
                                (missing == nullptr ? "" : "a multiple of ") +
                                std::to_string(product) + ")");
  }

  size_t AtomOf(const std::string& name) {
    const auto [at, is_new] = atoms_.emplace(name, map_.sizes.size());
    if (is_new) map_.sizes.push_back(sizes_.at(name));
    return at->second;
  }

  std::vector<size_t> AtomsOf(const std::vector<std::string>& axis) {
    std::vector<size_t> atoms;
    for (const std::string& name : axis) atoms.push_back(AtomOf(name));
    return atoms;
  }

  Status CheckLimits() const {
    if (map_.target.size() > kRankMax || map_.sizes.size() > kRankMax) {
      return InvalidArgumentError("more than " + std::to_string(kRankMax) +
                                  " axes");
    }
    // Starts with the size of the largest dtype. Axes of size 0 count as 1,
    // because the other axes still have sizes that must not overflow.
    uint64_t bytes = 16;
    for (const int64_t size : map_.sizes) {
      bytes = SaturatingProduct(bytes, std::max<int64_t>(size, 1));
    }
    if (bytes > uint64_t{1} << 62) {
      return InvalidArgumentError("an array too large to count");
    }
    return Status();
  }

  const AxisPattern& pattern_;
  const KnownAxes& known_;
  std::map<std::string, int64_t> sizes_;
  AxisNames source_, target_;  // without "..."
  std::map<std::string, size_t> atoms_;
  AxisMap map_;
};

Shape ShapeOfAxes(const AxisAtoms& axes, const Shape& sizes) {
  Shape shape;
  for (const auto& axis : axes) {
    int64_t extent = 1;
    for (const size_t atom : axis) extent *= sizes[atom];
    shape.push_back(extent);
  }
  return shape;
}

// ----- boxes ----------------------------------------------------------------

// A range of one axis: the origin and extent of each of its atoms.
using AtomRanges = std::vector<std::pair<int64_t, int64_t>>;

// Appends to `ranges`, in order, the ranges that cover the indices [first,
// first + count) of the atoms axis[level...]. `outer` has the ranges of the
// atoms before these.
void AddRanges(const std::vector<size_t>& axis, const Shape& sizes,
               size_t level, int64_t first, int64_t count, AtomRanges& outer,
               std::vector<AtomRanges>& ranges) {
  if (level == axis.size()) {
    ranges.push_back(outer);
    return;
  }
  int64_t inner = 1;
  for (size_t i = level + 1; i < axis.size(); ++i) inner *= sizes[axis[i]];
  const auto add = [&](int64_t step, int64_t steps, int64_t from, int64_t n) {
    outer.emplace_back(step, steps);
    AddRanges(axis, sizes, level + 1, from, n, outer, ranges);
    outer.pop_back();
  };
  const int64_t end = first + count;
  int64_t at = first;
  if (at % inner != 0 || end - at < inner) {
    const int64_t n = std::min(inner - at % inner, end - at);
    add(at / inner, 1, at % inner, n);
    at += n;
  }
  const int64_t whole = (end - at) / inner;
  if (whole > 0) add(at / inner, whole, 0, inner);
  at += whole * inner;
  if (at < end) add(at / inner, 1, 0, end - at);
}

std::vector<std::vector<AtomRanges>> RangesOfAxes(const AxisAtoms& axes,
                                                  const Shape& sizes,
                                                  const Box& box) {
  std::vector<std::vector<AtomRanges>> ranges(axes.size());
  for (size_t d = 0; d < axes.size(); ++d) {
    AtomRanges outer;
    AddRanges(axes[d], sizes, 0, box.origin[d], box.shape[d], outer, ranges[d]);
  }
  return ranges;
}

// Increments a mixed-radix number. Returns false after the last number.
bool Advance(Shape& digits, const Shape& counts) {
  for (size_t i = digits.size(); i-- > 0;) {
    if (++digits[i] < counts[i]) return true;
    digits[i] = 0;
  }
  return false;
}

// Returns for each atom by how many elements of its axis a step moves.
Shape AtomSteps(const AxisAtoms& axes, const Shape& sizes) {
  Shape steps(sizes.size(), 0);
  for (const auto& axis : axes) {
    int64_t step = 1;
    for (size_t i = axis.size(); i-- > 0;) {
      steps[axis[i]] = step;
      step *= sizes[axis[i]];
    }
  }
  return steps;
}

}  // namespace

Result<AxisPattern> ParseAxes(std::string_view text) {
  const size_t arrow = text.find("->");
  if (arrow == std::string_view::npos) {
    return InvalidArgumentError("\"" + std::string(text) +
                                "\": no \"->\" between two sides");
  }
  AxisPattern pattern;
  HF_ASSIGN_OR_RETURN(pattern.source,
                      SideParser(text.substr(0, arrow)).Parse());
  HF_ASSIGN_OR_RETURN(pattern.target,
                      SideParser(text.substr(arrow + 2)).Parse());
  return pattern;
}

Shape AxisMap::source_shape() const { return ShapeOfAxes(source, sizes); }
Shape AxisMap::target_shape() const { return ShapeOfAxes(target, sizes); }

AxisAtoms AxisMap::NumberedSource() const {
  AxisAtoms axes;
  for (const size_t atom : stacked) axes.push_back({atom});
  axes.insert(axes.end(), source.begin(), source.end());
  return axes;
}

AxisMap IdentityMap(const Shape& shape) {
  AxisMap map;
  map.sizes = shape;
  for (size_t d = 0; d < shape.size(); ++d) map.source.push_back({d});
  map.target = map.source;
  return map;
}

Result<AxisMap> ResolveAxes(const AxisPattern& pattern,
                            const KnownAxes& known) {
  return AxisResolver(pattern, known).Resolve();
}

Shape AtomStrides(const AxisAtoms& axes, const Shape& sizes,
                  const Shape& strides) {
  Shape of_atoms = AtomSteps(axes, sizes);
  for (size_t d = 0; d < axes.size(); ++d) {
    for (const size_t atom : axes[d]) {
      // With a single step the stride is irrelevant, and may be anything.
      of_atoms[atom] = sizes[atom] == 1 ? 0 : of_atoms[atom] * strides[d];
    }
  }
  return of_atoms;
}

Status ForEachAtomBox(const AxisAtoms& axes, const Shape& sizes,
                      const PlacedBox& placed,
                      const std::function<Status(PlacedBox)>& fn) {
  Shape strides = placed.strides;
  for (size_t d = 0; d < axes.size(); ++d) {
    // With a single step the stride is irrelevant, and may be anything.
    if (placed.box.shape[d] == 1) strides[d] = 0;
  }
  const Shape of_atoms = AtomStrides(axes, sizes, strides);
  const Shape steps = AtomSteps(axes, sizes);
  const auto ranges = RangesOfAxes(axes, sizes, placed.box);
  Shape counts;
  for (const auto& of_axis : ranges) counts.push_back(of_axis.size());
  Shape chosen(axes.size(), 0);
  do {
    PlacedBox atoms{{Shape(sizes.size(), 0), Shape(sizes.size(), 1)},
                    of_atoms,
                    placed.offset};
    for (size_t d = 0; d < axes.size(); ++d) {
      int64_t first = 0;
      for (size_t i = 0; i < axes[d].size(); ++i) {
        const size_t atom = axes[d][i];
        const auto [origin, extent] = ranges[d][chosen[d]][i];
        atoms.box.origin[atom] = origin;
        atoms.box.shape[atom] = extent;
        first += origin * steps[atom];
      }
      atoms.offset += (first - placed.box.origin[d]) * strides[d];
    }
    HF_RETURN_IF_ERROR(fn(std::move(atoms)));
  } while (Advance(chosen, counts));
  return Status();
}

uint64_t CountAtomBoxes(const AxisAtoms& axes, const Shape& sizes,
                        const Box& box) {
  uint64_t count = 1;
  for (const auto& of_axis : RangesOfAxes(axes, sizes, box)) {
    count = SaturatingProduct(count, of_axis.size());
  }
  return count;
}

AxisCut CutForAxes(const AxisAtoms& axes, const Shape& sizes,
                   const PlacedBox& atoms, size_t numbering_count) {
  AxisCut cut;
  for (size_t d = 0; d < numbering_count; ++d) {
    cut.atoms.push_back(axes[d][0]);
    cut.box_count =
        SaturatingProduct(cut.box_count, atoms.box.shape[axes[d][0]]);
  }
  bool is_under_whole = false;  // an outer atom is not cut
  for (size_t d = numbering_count; d < axes.size(); ++d) {
    const auto& axis = axes[d];
    // Go from the innermost atom outwards. An atom joins those inside it if the
    // box has all of their indices and the strides fit.
    int64_t size = 1, stride = 0;
    bool is_whole = true;
    std::vector<size_t> cut_here;
    for (size_t i = axis.size(); i-- > 0;) {
      const size_t atom = axis[i];
      const int64_t extent = atoms.box.shape[atom];
      if (extent > 1) {
        const bool joins =
            is_whole && (size == 1 || atoms.strides[atom] == stride * size);
        if (!joins) cut_here.push_back(atom);
        if (joins && size == 1) stride = atoms.strides[atom];
      }
      is_whole = is_whole && extent == sizes[atom] && cut_here.empty();
      size *= sizes[atom];
    }
    if (!cut_here.empty() && is_under_whole) cut.is_outermost = false;
    for (const size_t atom : axis) {
      const int64_t extent = atoms.box.shape[atom];
      const bool is_cut =
          std::find(cut_here.begin(), cut_here.end(), atom) != cut_here.end();
      if (is_cut) {
        cut.atoms.push_back(atom);
        cut.box_count = SaturatingProduct(cut.box_count, extent);
      } else if (extent > 1) {
        is_under_whole = true;
      }
    }
  }
  return cut;
}

Status ForEachAxisBox(const AxisAtoms& axes, const Shape& sizes,
                      const PlacedBox& atoms, const AxisCut& cut,
                      const std::function<Status(PlacedBox)>& fn) {
  Shape counts;
  for (const size_t atom : cut.atoms) {
    counts.push_back(atoms.box.shape[atom]);
  }
  Shape at(cut.atoms.size(), 0);
  do {
    Box one = atoms.box;
    int64_t offset = atoms.offset;
    for (size_t i = 0; i < cut.atoms.size(); ++i) {
      const size_t atom = cut.atoms[i];
      one.origin[atom] += at[i];
      one.shape[atom] = 1;
      offset += at[i] * atoms.strides[atom];
    }
    PlacedBox placed{BoxAround(axes, sizes, one), {}, offset};
    for (const auto& axis : axes) {
      // The stride of the innermost atom with more than one step.
      int64_t stride = 0;
      for (const size_t atom : axis) {
        if (one.shape[atom] > 1) stride = atoms.strides[atom];
      }
      placed.strides.push_back(stride);
    }
    HF_RETURN_IF_ERROR(fn(std::move(placed)));
  } while (Advance(at, counts));
  return Status();
}

Box BoxAround(const AxisAtoms& axes, const Shape& sizes, const Box& atoms) {
  const Shape steps = AtomSteps(axes, sizes);
  Box box;
  for (const auto& axis : axes) {
    int64_t first = 0, last = 0;
    for (const size_t atom : axis) {
      first += atoms.origin[atom] * steps[atom];
      last += (atoms.origin[atom] + atoms.shape[atom] - 1) * steps[atom];
    }
    box.origin.push_back(first);
    box.shape.push_back(last - first + 1);
  }
  return box;
}

}  // namespace holdfast
