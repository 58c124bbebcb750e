// Names of the step directories of a manager's root: how they are called, and
// finding them, by Orbax's rules.
//
//   auto format = holdfast::StandardNameFormat({.step_prefix = "ckpt"});
//   format->BuildName(7);             // "ckpt_7"
//   format->FindAll("/run");          // the committed ones
//
// A directory that was never committed is not found. Which those are depends on
// how saves commit (CommittedBy).
// Thread-safety: formats are immutable; any thread.
// Ownership: formats are shared.
// Errors: InvalidArgument with Orbax's texts, NotFound (no such step), and
// those of the file system.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "holdfast/export.h"
#include "holdfast/options.h"
#include "holdfast/process_group.h"
#include "holdfast/status.h"

namespace holdfast HOLDFAST_EXPORT {

// The rule by which a directory is a checkpoint rather than a part of one.
struct CommittedBy {
  // kMarkerFile: commit_success.txt in it. Else its name, which a save gives it
  // last: it lacks ".orbax-checkpoint-tmp".
  CommitMode mode = CommitMode::kAuto;
  // With kMarkerFile: a directory without the file may count by its name, too.
  bool allow_legacy_atomic_rename = false;

  bool operator==(const CommittedBy&) const = default;
};

// True when the directory at `path` is a committed checkpoint, or a temporary
// one. Both are false for files; for symbolic links only the first can be true.
bool IsPathFinalized(const std::string& path, const CommittedBy& rule = {});
bool IsPathTemporary(const std::string& path, const CommittedBy& rule = {});
// The same; an error where the device cannot tell, which the two above take for
// no.
Result<bool> CheckPathFinalized(const std::string& path,
                                const CommittedBy& rule = {});
Result<bool> CheckPathTemporary(const std::string& path,
                                const CommittedBy& rule = {});

struct FoundStep {
  int64_t step = 0;
  std::string name;  // of its directory

  bool operator==(const FoundStep&) const = default;
};

class StepNameFormat {
 public:
  virtual ~StepNameFormat() = default;

  // The name of the step's directory. REQUIRES: step >= 0.
  virtual std::string BuildName(int64_t step) const = 0;
  // The step that a directory of this name would hold.
  virtual std::optional<int64_t> StepOf(std::string_view name) const = 0;
  // The committed steps in `root`, in no order; none when there is no `root`.
  // With a group, and if the format says so, rank 0 looks for all.
  virtual Result<std::vector<FoundStep>> FindAll(
      const std::string& root, ProcessGroup* group = nullptr) const = 0;
  // NotFound with Orbax's text, also when there is no `root`.
  virtual Result<FoundStep> FindStep(const std::string& root,
                                     int64_t step) const = 0;
  virtual const CommittedBy& committed_by() const = 0;
  virtual bool single_host_load_and_broadcast() const { return false; }
  virtual bool is_standard() const { return false; }
  // As Orbax prints it: `StandardNameFormat("ckpt_1234")`.
  virtual std::string ToString() const = 0;
};

struct StandardNameOptions {
  std::optional<std::string> step_prefix;  // "ckpt": names begin with "ckpt_"
  // Least number of digits, with leading zeros; then only such names are found.
  std::optional<int> step_format_fixed_length;
  bool single_host_load_and_broadcast = false;
  CommittedBy committed_by;
};

// "23", "0023", "step_23", "step_0023".
std::shared_ptr<const StepNameFormat> StandardNameFormat(
    const StandardNameOptions& options = {});

// Writes names of one format and finds those of several, in order of
// preference. InvalidArgument unless `write` is one of `read`.
Result<std::shared_ptr<const StepNameFormat>> CompositeNameFormat(
    std::shared_ptr<const StepNameFormat> write,
    std::vector<std::shared_ptr<const StepNameFormat>> read);

// The same with single_host_load_and_broadcast; InvalidArgument unless it is
// standard.
Result<std::shared_ptr<const StepNameFormat>>
SingleHostLoadAndBroadcastNameFormat(const StepNameFormat& format);

// `<root>/<name of the step>`, whether it exists or not.
std::string BuildStepPath(const std::string& root, const StepNameFormat& format,
                          int64_t step);
// The directory of a step. With `include_uncommitted` one that is not committed
// yet is preferred.
Result<std::string> FindStepPath(const std::string& root,
                                 const StepNameFormat& format, int64_t step,
                                 bool include_uncommitted = false);
// The step of the highest number; nullopt without steps.
Result<std::optional<FoundStep>> LatestStepIn(const std::string& root,
                                              const StepNameFormat& format);
// The step whose directory `path` is.
Result<FoundStep> StepOfCheckpointPath(const std::string& path,
                                       const StepNameFormat& format);

// The step in a directory's name, committed or not, whatever its format:
// "7", "a_b_07", "7.orbax-checkpoint-tmp-1712345678", "a_7.orbax-..."
// InvalidArgument `Unrecognized name format: <name>.`
Result<int64_t> StepFromCheckpointName(std::string_view name);
// Names of the directories that were never committed; none when there is no
// `root`.
Result<std::vector<std::string>> TemporaryCheckpointNames(
    const std::string& root, const CommittedBy& rule = {});

}  // namespace holdfast
