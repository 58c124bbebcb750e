#include "holdfast/orbax/type_handlers.h"

namespace holdfast {

Result<std::vector<ValueMetadata>> PlaceholderHandler::Metadata(
    std::span<const ParamInfo> /*infos*/) {
  return UnimplementedError("Placeholders do not have metadata.");
}

Result<std::vector<CommitFuture>> PlaceholderHandler::Serialize(
    std::span<const Tree* const> /*values*/,
    std::span<const ParamInfo> /*infos*/, std::span<const SaveArgs> /*args*/) {
  return UnimplementedError("Placeholders cannot be serialized.");
}

Result<std::vector<Tree>> PlaceholderHandler::Deserialize(
    std::span<const ParamInfo> infos,
    std::span<const AnyRestoreArgs> /*args*/) {
  return std::vector<Tree>(infos.size(), Tree::Placeholder());
}

}  // namespace holdfast
