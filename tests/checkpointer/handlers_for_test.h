// Arguments and controllable handlers for tests of checkpointers.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "holdfast/checkpoint.h"
#include "holdfast/orbax/checkpointer.h"
#include "holdfast/orbax/composite_handler.h"
#include "holdfast/orbax/item_handlers.h"

namespace holdfast {

// Returns the value. REQUIRES: the Result is ok.
template <typename T>
T Taken(Result<T> result) {
  EXPECT_TRUE(result.ok()) << result.status().ToString();
  return std::move(result).value();
}

inline Array FloatArray(Shape shape, float first) {
  Array array = *Array::Allocate(DType::kFloat32, std::move(shape));
  auto* data = reinterpret_cast<float*>(array.mutable_view().data);
  for (int64_t i = 0; i < array.element_count(); ++i) {
    data[i] = first + static_cast<float>(i);
  }
  return array;
}

// A user's own item type: one line of text in a file.
struct NoteSave : CheckpointArgs {
  NoteSave() = default;
  explicit NoteSave(std::string t) : text(std::move(t)) {}
  std::string text;
};
struct NoteRestore : CheckpointArgs {
  std::string prefix;
};

// Arguments that no handler accepts.
struct UnknownSave : CheckpointArgs {};

class NoteHandler : public CheckpointHandler {
 public:
  std::string TypeStr() const override { return "acme.NoteHandler"; }
  Status Save(const std::string& directory,
              const CheckpointArgs& args) override {
    std::ofstream(directory + "/note")
        << dynamic_cast<const NoteSave&>(args).text;
    return Status();
  }
  Result<Tree> Restore(const std::string& directory,
                       const CheckpointArgs* args) override {
    const auto* restore = dynamic_cast<const NoteRestore*>(args);
    std::ifstream file(directory + "/note");
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    return Tree((restore == nullptr ? "" : restore->prefix) + text);
  }
};

// Writes like NoteHandler, but stays unfinished until the test calls
// done.set_value() with the Status of the save.
class HeldHandler final : public NoteHandler {
 public:
  std::string TypeStr() const override { return "acme.HeldHandler"; }
  Result<std::vector<CommitFuture>> AsyncSave(
      const std::string& directory, const CheckpointArgs& args) override {
    if (!stage_status.ok()) return stage_status;
    std::ofstream(directory + "/note")
        << dynamic_cast<const NoteSave&>(args).text;
    done = {};
    return std::vector{done.get_future().share()};
  }
  Status Finalize(const std::string&) override { return finalize_status; }
  void Cancel() override {
    // Called twice if a stuck save is cancelled again.
    if (!was_cancelled.exchange(true) && ends_when_cancelled) {
      done.set_value(CancelledError("as asked"));
    }
  }

  std::promise<Status> done;
  Status stage_status;
  Status finalize_status;
  bool ends_when_cancelled = false;
  std::atomic<bool> was_cancelled = false;
};

}  // namespace holdfast
