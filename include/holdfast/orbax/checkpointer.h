// Checkpointer and AsyncCheckpointer: save what a CheckpointHandler writes (one
// item, or several) as a checkpoint that appears atomically and durably, or not
// at all.
//
//   auto handler = CompositeCheckpointHandler::Make();
//   auto checkpointer = AsyncCheckpointer::Make(*handler);
//   (*checkpointer)->Save("/ckpt/7", args);   // returns when args may change
//   ...
//   Status saved = (*checkpointer)->WaitUntilFinished();
//
// With several processes (MultiprocessingOptions::group) every process makes
// the same calls; rank 0 of the active processes is the primary host.
//
// Thread-safety: one thread at a time; state(), IsSavingInProgress() and
// Cancel() of an AsyncCheckpointer from any thread. While a checkpointer saves,
// nothing else may use its group.
// Ownership: the handler is shared; args are borrowed for the call, the group
// for the checkpointer's lifetime.
// Units: seconds; nanoseconds since 1970-01-01 UTC.
// Errors: AlreadyExists "Destination P already exists.", NotFound "Checkpoint
// at P not found.", FailedPrecondition "Found incomplete checkpoint at P.",
// DeadlineExceeded naming phase and path, Cancelled, those of the handler and
// of PendingSave. After a failed save nothing exists at the path that did not
// exist before.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "holdfast/export.h"
#include "holdfast/options.h"
#include "holdfast/orbax/checkpoint_handler.h"
#include "holdfast/orbax/composite_handler.h"
#include "holdfast/orbax/pytree_checkpoint_handler.h"
#include "holdfast/status.h"
#include "holdfast/tree.h"

namespace holdfast HOLDFAST_EXPORT {

struct CheckpointerOptions {
  MultiprocessingOptions multiprocessing_options;
  CommitMode commit_mode = CommitMode::kAuto;  // as SaveOptions
  std::optional<uint32_t> directory_mode;      // as SaveOptions
  bool sync = true;                            // as SaveOptions
  bool write_digests = true;                   // as SaveOptions
  std::function<uint64_t()> now_ns;            // as SaveOptions
  // Receives SaveResult::notes, on the thread that commits; may be empty.
  std::function<void(const std::string&)> warn;
};

struct CheckpointerSaveOptions {
  bool force = false;           // as SaveOptions::overwrite
  std::string custom_metadata;  // a JSON object, or empty
};

class Checkpointer {
 public:
  // InvalidArgument for a null handler, and for impossible process options.
  static Result<std::unique_ptr<Checkpointer>> Make(
      std::shared_ptr<CheckpointHandler> handler,
      CheckpointerOptions options = {});
  virtual ~Checkpointer() = default;

  // Saves the checkpoint, which exists and is durable when Save returns.
  virtual Status Save(const std::string& path, const CheckpointArgs& args,
                      const CheckpointerSaveOptions& options = {}) = 0;
  // Restores the item; a composite returns a Dict of its items. Null args
  // restore it as it was saved.
  virtual Result<Tree> Restore(const std::string& path,
                               const CheckpointArgs* args = nullptr) = 0;
  virtual Result<StepMetadata> Metadata(const std::string& path) = 0;
  // Waits for the running save, then closes the handler. Returns a save's error
  // that was not reported yet. Later calls other than Close return
  // FailedPrecondition.
  virtual Status Close() = 0;
  virtual const std::shared_ptr<CheckpointHandler>& handler() const = 0;
};

// The state of the last save.
enum class SaveState : uint8_t {
  kNone,       // no save has begun
  kStaging,    // args are being copied
  kStaged,     // Save has returned or soon will: args may change
  kDurable,    // the checkpoint exists, and survives a power loss
  kFailed,     // no checkpoint exists; a call has returned or will return why
  kCancelled,  // no checkpoint exists, because Cancel was called
};
// Returns the state's name: "none", "staging", ...
std::string_view SaveStateName(SaveState state);

struct AsyncOptions {
  // The longest time from the call of Save until the checkpoint is durable.
  // InvalidArgument unless positive: "Timeout must be positive, but got T
  // seconds."
  double timeout_seconds = 1200;
  // Called on the saving thread, after the items are finalized and before the
  // checkpoint becomes visible, as in Orbax. May be empty.
  std::function<void()> post_finalization_callback;
  // Ignored: directories are always created before Save returns. (Orbax has
  // this option for storage that takes seconds to create a directory.)
  bool create_directories_asynchronously = true;
};

class AsyncCheckpointer : public Checkpointer {
 public:
  static Result<std::unique_ptr<AsyncCheckpointer>> Make(
      std::shared_ptr<CheckpointHandler> handler,
      AsyncOptions async_options = {}, CheckpointerOptions options = {});
  // Waits like WaitUntilFinished. A save past its deadline ends by itself
  // later, without committing.
  ~AsyncCheckpointer() override = default;

  // Begins a save, and returns when the args may change. First waits for the
  // previous save; if that failed, returns its error instead of saving. A later
  // error of the new save is returned once, by the next Save, Restore,
  // WaitUntilFinished, CheckForErrors or Close.
  Status Save(const std::string& path, const CheckpointArgs& args,
              const CheckpointerSaveOptions& options = {}) override = 0;
  // Waits until the last save is durable, has failed, or is past its deadline.
  virtual Status WaitUntilFinished() = 0;
  // Returns an error that was not returned yet, without waiting.
  virtual Status CheckForErrors() = 0;
  virtual bool IsSavingInProgress() const = 0;
  virtual SaveState state() const = 0;
  // Asks the running save to stop. Unless it is already committed, it will not
  // be; this is not an error. Does nothing if no save is running.
  virtual void Cancel() = 0;
};

}  // namespace holdfast
