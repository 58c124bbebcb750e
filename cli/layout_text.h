// Parses and prints meshes and partition specs.
//
//   mesh:  data=4,model=2
//   spec:  data,None   data+model   params.*=model,None
//
// A spec has one entry per dimension: an axis, several axes joined by '+'
// (outermost first), or None. The text before the last '=' is a pattern as for
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
  // Absent: applies to all arrays that have a dimension for each entry.
  std::optional<std::string> pattern;
  PartitionSpec spec;

  bool operator==(const SpecRule&) const = default;
};

Result<Mesh> ParseMesh(std::string_view text);
Result<SpecRule> ParseSpecRule(std::string_view text);
// "data+model,None"; "-" for a spec without entries.
std::string SpecText(const PartitionSpec& spec);
// "[0:2,4:8]".
std::string BoxText(const Shape& origin, const Shape& shape);

}  // namespace holdfast::cli
