// Assigns leaves to handlers: the engine takes the leaves of the standard
// handlers; every other handler gets all its leaves in one call.
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

// Whether the engine does exactly what this handler would: it is one of the
// standard classes, not a derived class, and its options change no file.
bool IsStandardHandler(const TypeHandler& handler);

// The leaves for one handler.
struct SaveGroup {
  std::shared_ptr<TypeHandler> handler;
  std::vector<Tree> values;
  std::vector<ParamInfo> infos;
  std::vector<SaveArgs> args;  // one per value
};

struct SaveParts {
  Tree tree;  // for the engine: leaves of the groups are External
  std::map<std::string, SaveArgs> save_args;  // of the engine's leaves
  std::vector<SaveGroup> groups;
};

// `info` holds what all leaves have in common. Empties go to no handler.
// InvalidArgument also with "Found empty item." for a tree without any leaf,
// and for trees that Flatten refuses.
Result<SaveParts> SplitByHandler(const Tree& item,
                                 const std::map<std::string, SaveArgs>& args,
                                 const TypeHandlerRegistry& registry,
                                 const ParamInfo& info);

}  // namespace holdfast
