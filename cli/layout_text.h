// Parses and prints meshes and partition specs.
//
//   mesh:  data=4,model=2
//   spec:  data,None   data+model   params.*=model,None
//
// A spec has one entry per dimension: an axis, several axes joined by '+'
// (outermost first), or None. The text before the last '=' is a pattern as in
// ls.
// Thread-safety: pure functions. Errors: InvalidArgument.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "holdfast/sharding.h"
#include "holdfast/status.h"

namespace holdfast::cli {

// A rule for how some arrays are partitioned.
struct SpecRule {
  // Without a pattern, the rule applies to all arrays that have a dimension for
  // each entry.
  std::optional<std::string> pattern;
  PartitionSpec spec;

  bool operator==(const SpecRule&) const = default;
};

Result<Mesh> ParseMesh(std::string_view text);
Result<SpecRule> ParseSpecRule(std::string_view text);
// Returns "data+model,None", for example, or "-" for a spec without entries.
std::string SpecText(const PartitionSpec& spec);
// Returns a box as a slice: "[0:2,4:8]".
std::string BoxText(const Shape& origin, const Shape& shape);

}  // namespace holdfast::cli
