// AlsoFormat: files of another format that hold a save's arrays, so that one
// set of bytes on disk opens in both formats.
//
// It decides names, sizes and places before anything is written, only from the
// plan, so that all processes decide alike. The save writes the arrays' chunks
// into these files, and the database refers to them. Thread-safety: immutable.
// Units: bytes.
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
  // A part of a file other than an array; written by the primary.
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
  std::vector<Text> texts;  // other files, written by the primary
};

class AlsoFormat {
 public:
  virtual ~AlsoFormat() = default;
  // Decides where everything is stored.
  // REQUIRES: the plan's arrays have run chunks (ChooseRunChunks), and have no
  // places yet.
  virtual Result<AlsoFiles> Plan(const SavePlan& plan) const = 0;
};

}  // namespace holdfast
