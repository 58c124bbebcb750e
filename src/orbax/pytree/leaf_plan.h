// Decides how a leaf is restored.
//
// Thread-safety: pure functions of an unchanging registry.
// Errors: InvalidArgument "TypeHandler lookup failed for: ..." for a type
// without a handler.
#pragma once

#include <memory>

#include "holdfast/orbax/type_handlers.h"
#include "holdfast/status.h"
#include "orbax/pytree/leaf_reader.h"

namespace holdfast {

enum class LeafAction : uint8_t {
  kEmpty,  // nothing is stored; the value is empty
  kPlaceholder,
  kNumpy,
  kScalar,
  kJax,
  kString,
  kHandler,  // a handler of the caller's own
};

struct LeafPlan {
  LeafAction action = LeafAction::kEmpty;
  std::shared_ptr<TypeHandler> handler;  // of kHandler
};

// Plans leaves. Caches the handlers that it looks up.
class LeafPlanner {
 public:
  explicit LeafPlanner(const TypeHandlerRegistry& registry)
      : registry_(registry) {}

  Result<LeafPlan> Plan(const LeafRequest& request);

 private:
  Result<LeafPlan> PlanOfType(const std::string& type, RestoreType wanted);

  const TypeHandlerRegistry& registry_;
  std::vector<std::pair<std::string, LeafPlan>> known_;
};

// Returns "np.ndarray" for kNumpy, ...; empty for kAsSaved.
std::string_view RestoreTypeName(RestoreType type);

}  // namespace holdfast
