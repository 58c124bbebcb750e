// AlsoFormat: files of another format whose bytes are a save's arrays, so that
// what is written once opens as both.
//
// It decides names, sizes and places before anything is written, only by the
// plan, so that many processes decide alike; the save writes the arrays' chunks
// there and refers to them. Thread-safety: immutable. Units: bytes.
// Errors: InvalidArgument for a leaf that the format cannot hold, naming it.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "holdfast/status.h"

namespace holdfast {

struct SavePlan;

// Paths are relative to the item's directory.
struct AlsoFiles {
  struct File {
    std::string path;
    uint64_t byte_count = 0;
  };
  struct Place {
    uint32_t file = 0;  // in `files`
    uint64_t offset = 0;
  };
  // The parts of the files beside arrays; the primary writes them.
  struct Piece {
    Place place;
    std::string bytes;
  };
  struct Text {
    std::string path;
    std::string content;
  };

  std::vector<File> files;
  std::vector<Place> arrays;  // the first byte of each of SavePlan::arrays
  std::vector<Piece> pieces;
  std::vector<Text> texts;  // other files, of the primary's
};

class AlsoFormat {
 public:
  virtual ~AlsoFormat() = default;
  // REQUIRES: the plan's arrays have run chunks (ChooseRunChunks), not stored
  // anywhere yet.
  virtual Result<AlsoFiles> Plan(const SavePlan& plan) const = 0;
};

}  // namespace holdfast
