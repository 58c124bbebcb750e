// Reads leaves as requested: the leaves of the standard handlers in one pass of
// the engine, and every other handler's leaves in one call.
//
// Memory for all results is allocated first. The engine then fills it, in
// parallel and in file order.
// Thread-safety: one call per context. Ownership: borrows the context; results
// own their memory. Units: bytes.
// Errors: InvalidArgument with Orbax's messages for leaves that cannot be read
// as requested; the engine's NotFound and DataLoss, with the leaf's name.
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
  Stats* stats = nullptr;  // the engine adds its statistics
  MultiprocessingOptions processes = {};
};

// Returns one value per request.
Result<std::vector<Tree>> ReadLeaves(const ReadContext& context,
                                     const std::vector<LeafRequest>& requests);

}  // namespace holdfast
