// Reads leaves as they were asked for: all that standard handlers serve in one
// pass of the engine, every other handler's leaves in one call.
//
// Memory for every result is made first; the engine then fills all of it, in
// parallel and in file order.
// Thread-safety: one call a context. Ownership: borrows the context; results
// own their memory. Units: bytes.
// Errors: InvalidArgument with Orbax's texts for leaves that cannot be read as
// asked; NotFound and DataLoss of the engine, naming the leaf.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ground/tree/key_path.h"
#include "holdfast/orbax/pytree_checkpoint_handler.h"
#include "holdfast/orbax/type_handlers.h"
#include "holdfast/pytree_metadata.h"
#include "holdfast/restore_args.h"
#include "orbax/pytree/item_source.h"

namespace holdfast {

struct LeafRequest {
  KeyPath path;  // in the result, for messages
  ParamInfo info;
  ValueMetadataEntry entry;
  AnyRestoreArgs args;
};

struct ReadContext {
  const ItemSource* source = nullptr;  // null: no array can be found
  std::string directory;
  const TypeHandlerRegistry* registry = nullptr;
  RunOptions run;
  Stats* stats = nullptr;  // gets those of the engine's pass
  MultiprocessingOptions processes = {};
};

// One value a request.
Result<std::vector<Tree>> ReadLeaves(const ReadContext& context,
                                     const std::vector<LeafRequest>& requests);

}  // namespace holdfast
