// Assigns leaves to handlers: the engine takes those of the standard handlers,
// every other handler gets its own leaves, all at once.
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

// Whether the engine itself does what this handler would: it is one of the
// standard classes, not a class derived from one, and its options change no
// file.
bool IsStandardHandler(const TypeHandler& handler);

// Leaves for one handler.
struct SaveGroup {
  std::shared_ptr<TypeHandler> handler;
  std::vector<Tree> values;
  std::vector<ParamInfo> infos;
  std::vector<SaveArgs> args;  // one a value
};

struct SaveParts {
  Tree tree;  // for the engine: leaves of the groups are External
  std::map<std::string, SaveArgs> save_args;  // of the engine's leaves
  std::vector<SaveGroup> groups;
};

// `info` holds what all leaves have in common. Empties go to no handler.
// InvalidArgument also "Found empty item." for a tree without anything, and
// what Flatten refuses.
Result<SaveParts> SplitByHandler(const Tree& item,
                                 const std::map<std::string, SaveArgs>& args,
                                 const TypeHandlerRegistry& registry,
                                 const ParamInfo& info);

}  // namespace holdfast
