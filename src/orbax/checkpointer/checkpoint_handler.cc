// The default methods of CheckpointHandler.
#include "holdfast/orbax/checkpoint_handler.h"

#include "ground/base/status_macros.h"
#include "orbax/checkpointer/args.h"

namespace holdfast {

Result<std::vector<CommitFuture>> CheckpointHandler::AsyncSave(
    const std::string& directory, const CheckpointArgs& args) {
  HF_RETURN_IF_ERROR(Save(directory, args));
  return std::vector<CommitFuture>();
}

Result<Tree> CheckpointHandler::Metadata(const std::string& directory) {
  return UnimplementedError(TypeStr() + ": no metadata of " + directory);
}

Status CheckpointHandler::Finalize(const std::string&) { return Status(); }

void CheckpointHandler::Close() {}

void CheckpointHandler::Cancel() {}

std::vector<std::string> CheckpointHandler::SyncedItems() const { return {}; }

Status WrongArgsError(std::string_view handler, std::type_index want,
                      const CheckpointArgs& got) {
  return InvalidArgumentError(std::string(handler) + ": wrong arguments (got " +
                              CppTypeName(typeid(got)) + ", want " +
                              CppTypeName(want) + ")");
}

}  // namespace holdfast
