// Where the items of a source go in the new checkpoint, and what its root says.
//
// Thread-safety: pure functions. Errors: Unimplemented for an item that is
// neither a tree nor JSON, FailedPrecondition for a damaged root record.
#pragma once

#include <string>
#include <vector>

#include "checkpoint/opened_checkpoint.h"
#include "holdfast/options.h"
#include "holdfast/pending_save.h"

namespace holdfast {

struct TargetItem {
  const Item* item = nullptr;
  std::string name;       // its directory; empty: the root itself
  std::string json_file;  // a JSON item: its file's name
};

struct TargetLayout {
  std::vector<TargetItem> items;
  RootRecord root;
};

// `items`: those of the source that are wanted.
Result<TargetLayout> MakeTargetLayout(const CheckpointInfo& source,
                                      const std::vector<const Item*>& items,
                                      Format format);

}  // namespace holdfast
