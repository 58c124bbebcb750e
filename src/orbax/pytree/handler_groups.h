// Assigns leaves to handlers. The engine takes the leaves of the standard
// handlers. Every other handler gets all its leaves in one call.
//
// Thread-safety: pure functions of an unchanging registry.
// Ownership: groups share leaves and handlers.
// Errors: InvalidArgument "TypeHandler lookup failed for: ...".
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "holdfast/options.h"
#include "holdfast/orbax/type_handlers.h"
#include "holdfast/status.h"
#include "holdfast/tree.h"

namespace holdfast {

// Returns whether the engine does exactly what this handler would. The handler
// must be of a standard class, not of a derived class, and its options must not
// change any file.
bool IsStandardHandler(const TypeHandler& handler);

// The leaves for one handler.
struct SaveGroup {
  std::shared_ptr<TypeHandler> handler;
  std::vector<Tree> values;
  std::vector<ParamInfo> infos;
  std::vector<SaveArgs> args;  // one per value
};

struct SaveParts {
  Tree tree;  // for the engine; leaves of the groups are External
  std::map<std::string, SaveArgs> save_args;  // of the engine's leaves
  std::vector<SaveGroup> groups;
};

// Divides the item's leaves among the engine and the handlers. `info` has what
// all leaves have in common. Empties go to no handler. InvalidArgument also
// with "Found empty item." for a tree without any leaf, and for trees that
// Flatten refuses.
Result<SaveParts> SplitByHandler(const Tree& item,
                                 const std::map<std::string, SaveArgs>& args,
                                 const TypeHandlerRegistry& registry,
                                 const ParamInfo& info);

}  // namespace holdfast
