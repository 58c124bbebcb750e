// Which file of a safetensors checkpoint each leaf of a plan lies in, and
// where: everything that is written besides the elements of arrays, before a
// byte is.
//
// Thread-safety: pure functions. Units: bytes.
// Errors: InvalidArgument for a leaf that the format cannot hold, naming it;
// ResourceExhausted for a header larger than any reader takes.
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
    std::string header;  // with the length in front of it
    uint64_t byte_count = 0;
  };
  struct Place {
    size_t file = 0;
    uint64_t offset = 0;  // of the first byte, in the file
  };

  std::vector<File> files;
  std::vector<Place> places;  // as the plan's leaves; those of `stored`
  std::vector<uint64_t>
      order;  // as the plan's leaves: their order in the files
  // The leaves that have a tensor, in the plan's order.
  std::vector<size_t> stored;
  // The text of the index; empty when there is one file.
  std::string index;
};

// `metadata`: entries of `__metadata__` where the plan's own have none.
Result<SafetensorsLayout> LayOutSafetensors(
    const TargetPlan& plan,
    const std::map<std::string, std::string>& metadata = {});

}  // namespace holdfast
