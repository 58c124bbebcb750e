// Names of the step directories in a manager's root: builds and finds them by
// Orbax's rules.
//
//   auto format = holdfast::StandardNameFormat({.step_prefix = "ckpt"});
//   format->BuildName(7);             // "ckpt_7"
//   format->FindAll("/run");          // the committed ones
//
// A directory that was never committed is not found. How a commit is recognized
// depends on how saves commit (CommittedBy).
// Thread-safety: formats are immutable; any thread.
// Ownership: formats are shared.
// Errors: InvalidArgument with Orbax's messages, NotFound (no such step), and
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

// The rule by which a directory counts as a committed checkpoint.
struct CommittedBy {
  // kMarkerFile: by commit_success.txt in it. Otherwise by its name, which a
  // save sets last: it does not contain ".orbax-checkpoint-tmp".
  CommitMode mode = CommitMode::kAuto;
  // With kMarkerFile: a directory without the marker may also count by its
  // name.
  bool allow_legacy_atomic_rename = false;

  bool operator==(const CommittedBy&) const = default;
};

// True when the directory at `path` is a committed checkpoint, or a temporary
// one. Both are false for files; for symbolic links only the first can be true.
bool IsPathFinalized(const std::string& path, const CommittedBy& rule = {});
bool IsPathTemporary(const std::string& path, const CommittedBy& rule = {});
// The same, but returns an error if the storage cannot be read, where the two
// above return false.
Result<bool> CheckPathFinalized(const std::string& path,
                                const CommittedBy& rule = {});
Result<bool> CheckPathTemporary(const std::string& path,
                                const CommittedBy& rule = {});

struct FoundStep {
  int64_t step = 0;
  std::string name;  // its directory's

  bool operator==(const FoundStep&) const = default;
};

class StepNameFormat {
 public:
  virtual ~StepNameFormat() = default;

  // The name of the step's directory. REQUIRES: step >= 0.
  virtual std::string BuildName(int64_t step) const = 0;
  // The step that a directory with this name would hold.
  virtual std::optional<int64_t> StepOf(std::string_view name) const = 0;
  // The committed steps in `root`, in no particular order; empty when there is
  // no `root`. With a group, and if the format says so, rank 0 looks for all
  // ranks.
  virtual Result<std::vector<FoundStep>> FindAll(
      const std::string& root, ProcessGroup* group = nullptr) const = 0;
  // NotFound with Orbax's message, also when there is no `root`.
  virtual Result<FoundStep> FindStep(const std::string& root,
                                     int64_t step) const = 0;
  virtual const CommittedBy& committed_by() const = 0;
  virtual bool single_host_load_and_broadcast() const { return false; }
  virtual bool is_standard() const { return false; }
  // The text that Orbax prints: `StandardNameFormat("ckpt_1234")`.
  virtual std::string ToString() const = 0;
};

struct StandardNameOptions {
  std::optional<std::string> step_prefix;  // "ckpt": names begin with "ckpt_"
  // Minimum number of digits, with leading zeros; then only such names are
  // found.
  std::optional<int> step_format_fixed_length;
  bool single_host_load_and_broadcast = false;
  CommittedBy committed_by;
};

// "23", "0023", "step_23", "step_0023".
std::shared_ptr<const StepNameFormat> StandardNameFormat(
    const StandardNameOptions& options = {});

// Writes names in one format and finds names in several, in order of
// preference. InvalidArgument unless `write` is one of `read`.
Result<std::shared_ptr<const StepNameFormat>> CompositeNameFormat(
    std::shared_ptr<const StepNameFormat> write,
    std::vector<std::shared_ptr<const StepNameFormat>> read);

// The same format with single_host_load_and_broadcast; InvalidArgument unless
// it is a standard format.
Result<std::shared_ptr<const StepNameFormat>>
SingleHostLoadAndBroadcastNameFormat(const StepNameFormat& format);

// `<root>/<step name>`, whether it exists or not.
std::string BuildStepPath(const std::string& root, const StepNameFormat& format,
                          int64_t step);
// The directory of a step. With `include_uncommitted`, an uncommitted directory
// is preferred.
Result<std::string> FindStepPath(const std::string& root,
                                 const StepNameFormat& format, int64_t step,
                                 bool include_uncommitted = false);
// The step with the highest number; nullopt without steps.
Result<std::optional<FoundStep>> LatestStepIn(const std::string& root,
                                              const StepNameFormat& format);
// The step whose directory `path` is.
Result<FoundStep> StepOfCheckpointPath(const std::string& path,
                                       const StepNameFormat& format);

// The step in a directory's name, committed or not, in any format: "7",
// "a_b_07", "7.orbax-checkpoint-tmp-1712345678", "a_7.orbax-..."
// InvalidArgument `Unrecognized name format: <name>.`
Result<int64_t> StepFromCheckpointName(std::string_view name);
// Names of the directories that were never committed; empty when there is no
// `root`.
Result<std::vector<std::string>> TemporaryCheckpointNames(
    const std::string& root, const CommittedBy& rule = {});

}  // namespace holdfast
