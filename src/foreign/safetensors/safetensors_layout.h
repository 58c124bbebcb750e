// The file and the offset of each leaf of a plan in a safetensors checkpoint,
// and all bytes except the elements of arrays. Everything is computed before
// any byte is written.
//
// Thread-safety: pure functions. Units: bytes.
// Errors: InvalidArgument, with the leaf, for a leaf that the format cannot
// hold; ResourceExhausted for a header larger than readers accept.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "foreign/extents/target.h"

namespace holdfast {

struct SafetensorsLayout {
  struct File {
    std::string name;
    std::string header;  // with its length at the start
    uint64_t byte_count = 0;
  };
  struct Place {
    size_t file = 0;
    uint64_t offset = 0;  // of the first byte, in the file
  };

  std::vector<File> files;
  std::vector<Place> places;  // by leaf of the plan; valid for `stored`
  std::vector<uint64_t>
      order;  // by leaf of the plan: its position in the files
  // The leaves that have a tensor, in the plan's order.
  std::vector<size_t> stored;
  // The text of the index; empty if there is only one file.
  std::string index;
};

// Lays out the leaves of the plan. `metadata` has entries of `__metadata__`
// that are used if the plan does not have them itself.
Result<SafetensorsLayout> LayOutSafetensors(
    const TargetPlan& plan,
    const std::map<std::string, std::string>& metadata = {});

}  // namespace holdfast
