#include "engine/save/unchanged.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <mutex>
#include <string_view>
#include <utility>

#include "engine/commit/layout.h"
#include "engine/format/directory_names.h"
#include "ground/base/no_throw.h"
#include "stores/place/directory_ops.h"
#include "stores/storage/read_if_there.h"

namespace holdfast {
namespace {

// A program has few roots. If it has more, it forgets all; its next save into
// each is then like its first.
constexpr size_t kRootCountMax = 1024;

struct LastStep {
  int64_t number = 0;
  std::optional<FloatArrays> floats;
};

// The step that this process committed last into each root, by the steps' paths
// without their numbers.
class LastSteps {
 public:
  // Returns the last step, and sets `step` in its place.
  std::optional<LastStep> Exchange(const std::string& path,
                                   const LastStep& step) {
    const std::lock_guard lock(mutex_);
    std::optional<LastStep> last;
    if (const auto it = steps_.find(path); it != steps_.end()) {
      last = it->second;
    }
    if (steps_.size() >= kRootCountMax) steps_.clear();
    steps_[path] = step;
    return last;
  }

 private:
  std::mutex mutex_;
  std::map<std::string, LastStep> steps_;
};

LastSteps& OfProcess() {
  static LastSteps* const steps = new LastSteps;
  return *steps;
}

// Returns "step_" for "step_00000007".
std::string_view WithoutNumber(std::string_view name) {
  return name.substr(0, name.find_last_not_of("0123456789") + 1);
}

// Managers and trainers write these before the number of a step. Other names
// with a number may belong to equals: "fold_1", "copy_2".
constexpr std::string_view kStepPrefixes[] = {
    "",       "step_",       "step-",       "global_step", "iter_",
    "epoch_", "checkpoint_", "checkpoint-", "ckpt_",       "ckpt-"};

std::optional<int64_t> NumberOfStep(std::string_view name) {
  const std::string_view prefix = WithoutNumber(name);
  if (std::ranges::find(kStepPrefixes, prefix) == std::end(kStepPrefixes)) {
    return std::nullopt;
  }
  return StepOfName(name);
}

// Returns the newest step on disk before `step`, of the same form of name.
std::optional<LastStep> EarlierOnDisk(const Place& step, int64_t number) {
  if (step.is_remote()) return std::nullopt;
  const Place root = step.parent();
  const auto names = ListDirectory(root);
  if (!names.ok()) return std::nullopt;
  std::optional<LastStep> earlier;
  std::string earlier_name;
  for (const std::string& name : *names) {
    const std::optional<int64_t> other = StepOfName(name);
    if (!other || *other >= number) continue;
    if (WithoutNumber(name) != WithoutNumber(step.name())) continue;
    if (earlier && earlier->number >= *other) continue;
    earlier = {*other, std::nullopt};
    earlier_name = name;
  }
  if (!earlier) return std::nullopt;
  const auto digests = ReadIfThere(*(root / earlier_name).OpenStore(),
                                   kDigestFile, ParseDigestFile);
  if (digests.ok() && *digests) earlier->floats = (*digests)->floats;
  return earlier;
}

std::string NoteOf(const Place& step, int64_t number, int64_t earlier,
                   const FloatArrays& floats) {
  return step.parent().path() + ": step " + std::to_string(number) +
         " holds exactly the tensors of step " + std::to_string(earlier) +
         " (" + std::to_string(floats.array_count) +
         " floating-point arrays, " + std::to_string(floats.byte_count) +
         " bytes, bit for bit): the program may be saving a copy that it no "
         "longer updates, such as an old reference to the state, a snapshot "
         "in host memory, or parameters that a compiled function captured";
}

}  // namespace

std::string NoteIfUnchanged(const Place& step,
                            const std::optional<FloatArrays>& floats) {
  // The step is committed, so no failure here may reach the caller.
  const Result<std::string> note = CatchBadAlloc([&]() -> Result<std::string> {
    const std::optional<int64_t> number = NumberOfStep(step.name());
    if (!number) return std::string();
    const std::string path(WithoutNumber(step.path()));
    std::optional<LastStep> last =
        OfProcess().Exchange(path, {*number, floats});
    const bool is_comparable = floats && floats->array_count > 0;
    if (!is_comparable) return std::string();
    if (!last) last = EarlierOnDisk(step, *number);
    if (!last || last->number >= *number || last->floats != floats) {
      return std::string();
    }
    return NoteOf(step, *number, last->number, *floats);
  });
  return note.ok() ? *note : std::string();
}

}  // namespace holdfast
