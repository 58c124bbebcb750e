#include "holdfast/orbax/checkpointer.h"

#include "engine/commit/layout.h"
#include "ground/base/no_throw.h"
#include "ground/base/status_macros.h"
#include "orbax/checkpointer/save_steps.h"

namespace holdfast {
namespace {

class SyncCheckpointer final : public Checkpointer {
 public:
  SyncCheckpointer(std::shared_ptr<CheckpointHandler> handler,
                   std::shared_ptr<ProcessGroup> group,
                   CheckpointerOptions options)
      : handler_(std::move(handler)),
        group_(std::move(group)),
        options_(std::move(options)) {}

  Status Save(const std::string& path, const CheckpointArgs& args,
              const CheckpointerSaveOptions& save_options) override {
    HF_RETURN_IF_ERROR(CheckOpen());
    return InGroupCall(group_.get(), [&] {
      return CatchBadAlloc([&]() -> Status {
        HF_ASSIGN_OR_RETURN(SaveSteps steps,
                            SaveSteps::Begin(handler_, group_, options_,
                                             AbsolutePath(path), save_options));
        HF_RETURN_IF_ERROR(
            steps.Agree("saved", handler_->Save(steps.directory(), args)));
        HF_RETURN_IF_ERROR(steps.Finalize());
        return steps.Commit();
      });
    });
  }

  Result<Tree> Restore(const std::string& path,
                       const CheckpointArgs* args) override {
    HF_RETURN_IF_ERROR(CheckOpen());
    return RestoreWith(*handler_, group_.get(), options_.commit_mode,
                       AbsolutePath(path), args);
  }

  Result<StepMetadata> Metadata(const std::string& path) override {
    HF_RETURN_IF_ERROR(CheckOpen());
    return CatchBadAlloc(
        [&] { return ReadMetadataWith(*handler_, AbsolutePath(path)); });
  }

  Status Close() override {
    if (!is_closed_) handler_->Close();
    is_closed_ = true;
    return Status();
  }

  const std::shared_ptr<CheckpointHandler>& handler() const override {
    return handler_;
  }

 private:
  Status CheckOpen() const {
    return is_closed_ ? FailedPreconditionError("the checkpointer is closed")
                      : Status();
  }

  const std::shared_ptr<CheckpointHandler> handler_;
  const std::shared_ptr<ProcessGroup> group_;
  const CheckpointerOptions options_;
  bool is_closed_ = false;
};

}  // namespace

Result<std::unique_ptr<Checkpointer>> Checkpointer::Make(
    std::shared_ptr<CheckpointHandler> handler, CheckpointerOptions options) {
  if (handler == nullptr) return InvalidArgumentError("handler is null");
  HF_ASSIGN_OR_RETURN(auto group, SavingGroup(options.multiprocessing_options));
  return std::unique_ptr<Checkpointer>(std::make_unique<SyncCheckpointer>(
      std::move(handler), std::move(group), std::move(options)));
}

}  // namespace holdfast
