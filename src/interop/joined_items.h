// The items of a step as one checkpoint, each opened by itself: what a step
// with several items is when one of them is a delta.
//
// Thread-safety, errors: as holdfast/checkpoint.h. Ownership: owns the items.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "holdfast/checkpoint.h"

namespace holdfast {

struct OpenedItem {
  std::string name;
  std::unique_ptr<Checkpoint> checkpoint;
};

// `info` is the step's. Names and keys of leaves start with the item's name;
// info().bases are those of all items.
std::unique_ptr<Checkpoint> JoinItems(const CheckpointInfo& info,
                                      std::vector<OpenedItem> items);

}  // namespace holdfast
