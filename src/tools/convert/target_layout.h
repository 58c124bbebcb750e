// Assigns a source's items their places in the new checkpoint, and records its
// root.
//
// Thread-safety: pure functions. Errors: Unimplemented for an item that is
// neither a tree nor JSON, FailedPrecondition for a damaged root record.
#pragma once

#include <string>
#include <vector>

#include "holdfast/checkpoint.h"
#include "holdfast/options.h"
#include "holdfast/pending_save.h"

namespace holdfast {

// An item to convert.
struct SourceItem {
  std::string name;  // empty if the checkpoint is the item
  bool is_json = false;
  std::string json_file;  // of a JSON item; empty if not known
};

struct TargetItem {
  std::string name;       // its directory; empty means the root itself
  std::string json_file;  // a JSON item: its file's name
};

struct TargetLayout {
  std::vector<TargetItem> items;
  RootRecord root;
};

Result<TargetLayout> MakeTargetLayout(const CheckpointInfo& source,
                                      const std::vector<SourceItem>& items,
                                      Format format);

}  // namespace holdfast
