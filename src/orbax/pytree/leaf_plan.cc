#include "orbax/pytree/leaf_plan.h"

#include <utility>

#include "ground/base/status_macros.h"
#include "ground/tree/rebuild.h"
#include "ground/tree/value_type.h"
#include "orbax/pytree/handler_groups.h"
#include "orbax/pytree/messages.h"

namespace holdfast {
namespace {

LeafPlan PlanOfHandler(const std::shared_ptr<TypeHandler>& handler) {
  if (!IsStandardHandler(*handler)) return {LeafAction::kHandler, handler};
  const std::string typestr = handler->typestr();
  if (typestr == kValueTypeNumpy) return {LeafAction::kNumpy, nullptr};
  if (typestr == kValueTypeScalar) return {LeafAction::kScalar, nullptr};
  if (typestr == kValueTypeJaxArray) return {LeafAction::kJax, nullptr};
  if (typestr == kValueTypeString) return {LeafAction::kString, nullptr};
  return {LeafAction::kPlaceholder, nullptr};
}

std::string ArgsText(const AnyRestoreArgs& args) {
  const std::string_view type = RestoreTypeName(RestoreTypeOf(args));
  const std::optional<DType> dtype = RestoreDType(args);
  std::string text =
      AsArrayRestoreArgs(args) == nullptr ? "RestoreArgs" : "ArrayRestoreArgs";
  text += "(restore_type=";
  text += type.empty() ? "None" : type;
  text += ", dtype=";
  text += dtype ? DTypeName(*dtype) : "None";
  return text + ")";
}

}  // namespace

std::string_view RestoreTypeName(RestoreType type) {
  switch (type) {
    case RestoreType::kAsSaved:
      return "";
    case RestoreType::kNumpy:
      return "np.ndarray";
    case RestoreType::kJaxArray:
      return "jax.Array";
    case RestoreType::kInt:
      return "int";
    case RestoreType::kFloat:
      return "float";
    case RestoreType::kBool:
      return "bool";
    case RestoreType::kString:
      return "str";
  }
  return "";
}

Result<LeafPlan> LeafPlanner::PlanOfType(const std::string& type,
                                         RestoreType wanted) {
  for (const auto& [known, plan] : known_) {
    if (known == type) return plan;
  }
  HF_ASSIGN_OR_RETURN(
      const auto handler,
      wanted == RestoreType::kAsSaved
          ? registry_.Get(std::string_view(type))
          : registry_.Get(LeafType{std::string(RestoreTypeName(wanted))}));
  known_.emplace_back(type, PlanOfHandler(handler));
  return known_.back().second;
}

Result<LeafPlan> LeafPlanner::Plan(const LeafRequest& request) {
  if (request.info.skip_deserialize) return LeafPlan{};
  const RestoreType wanted = RestoreTypeOf(request.args);
  if (wanted == RestoreType::kAsSaved &&
      IsEmptyValueType(request.entry.value_type)) {
    return LeafPlan{};
  }
  // "<" keeps the names of requested types apart from typestrs.
  const std::string type = wanted == RestoreType::kAsSaved
                               ? request.entry.value_type
                               : "<" + std::string(RestoreTypeName(wanted));
  Result<LeafPlan> plan = PlanOfType(type, wanted);
  if (plan.ok()) return plan;
  const std::string args_text = ArgsText(request.args);
  const std::string entry_text = PythonEntryText(request.entry);
  return InvalidArgumentError(LookupFailureText(
      {wanted == RestoreType::kAsSaved ? request.entry.value_type
                                       : RestoreTypeName(wanted),
       request.path, args_text, entry_text}));
}

}  // namespace holdfast
