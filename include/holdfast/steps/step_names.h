// Builds and finds the names of step directories in a manager's root, by
// Orbax's rules.
//
//   auto format = holdfast::StandardNameFormat({.step_prefix = "ckpt"});
//   format->BuildName(7);             // "ckpt_7"
//   format->FindAll("/run");          // the committed steps
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
  // kMarkerFile: the directory contains commit_success.txt. Otherwise: its name
  // does not contain ".orbax-checkpoint-tmp". (A save renames the directory
  // last.)
  CommitMode mode = CommitMode::kAuto;
  // With kMarkerFile: a directory without the marker also counts if its name
  // shows that it is committed.
  bool allow_legacy_atomic_rename = false;

  bool operator==(const CommittedBy&) const = default;
};

// Return true if the directory at `path` is a committed checkpoint, or a
// temporary one. Both return false for files. For a symbolic link, only
// IsPathFinalized can return true.
bool IsPathFinalized(const std::string& path, const CommittedBy& rule = {});
bool IsPathTemporary(const std::string& path, const CommittedBy& rule = {});
// Return the same, but an error if the storage cannot be read; the two
// functions above then return false.
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

  // Returns the name of the step's directory. REQUIRES: step >= 0.
  virtual std::string BuildName(int64_t step) const = 0;
  // Returns the step that a directory with this name would hold.
  virtual std::optional<int64_t> StepOf(std::string_view name) const = 0;
  // Returns the committed steps in `root`, in no particular order; empty if
  // `root` does not exist. With a group, if single_host_load_and_broadcast(),
  // only rank 0 reads `root`, and sends the result to the other ranks.
  virtual Result<std::vector<FoundStep>> FindAll(
      const std::string& root, ProcessGroup* group = nullptr) const = 0;
  // Returns the committed step. NotFound with Orbax's message, also if `root`
  // does not exist.
  virtual Result<FoundStep> FindStep(const std::string& root,
                                     int64_t step) const = 0;
  virtual const CommittedBy& committed_by() const = 0;
  virtual bool single_host_load_and_broadcast() const { return false; }
  virtual bool is_standard() const { return false; }
  // Returns the text that Orbax prints: `StandardNameFormat("ckpt_1234")`.
  virtual std::string ToString() const = 0;
};

struct StandardNameOptions {
  std::optional<std::string> step_prefix;  // "ckpt": names begin with "ckpt_"
  // Minimum number of digits, filled with leading zeros. If set, only names
  // with that many digits are found.
  std::optional<int> step_format_fixed_length;
  bool single_host_load_and_broadcast = false;
  CommittedBy committed_by;
};

// Makes a format for names like "23", "0023", "step_23" or "step_0023".
std::shared_ptr<const StepNameFormat> StandardNameFormat(
    const StandardNameOptions& options = {});

// Makes a format that writes names in one format and finds names in several
// formats, in order of preference. InvalidArgument unless `write` is one of
// `read`.
Result<std::shared_ptr<const StepNameFormat>> CompositeNameFormat(
    std::shared_ptr<const StepNameFormat> write,
    std::vector<std::shared_ptr<const StepNameFormat>> read);

// Makes the same format with single_host_load_and_broadcast. InvalidArgument
// unless it is a standard format.
Result<std::shared_ptr<const StepNameFormat>>
SingleHostLoadAndBroadcastNameFormat(const StepNameFormat& format);

// Returns `<root>/<step name>`, whether it exists or not.
std::string BuildStepPath(const std::string& root, const StepNameFormat& format,
                          int64_t step);
// Returns the directory of a step. With `include_uncommitted`, prefers an
// uncommitted directory.
Result<std::string> FindStepPath(const std::string& root,
                                 const StepNameFormat& format, int64_t step,
                                 bool include_uncommitted = false);
// Returns the step with the highest number; nullopt if there are no steps.
Result<std::optional<FoundStep>> LatestStepIn(const std::string& root,
                                              const StepNameFormat& format);
// Returns the step whose directory is `path`.
Result<FoundStep> StepOfCheckpointPath(const std::string& path,
                                       const StepNameFormat& format);

// Returns the step in a directory's name, committed or not, in any format: "7",
// "a_b_07", "7.orbax-checkpoint-tmp-1712345678", "a_7.orbax-..."
// InvalidArgument `Unrecognized name format: <name>.`
Result<int64_t> StepFromCheckpointName(std::string_view name);
// Returns the names of the directories that were never committed; empty if
// `root` does not exist.
Result<std::vector<std::string>> TemporaryCheckpointNames(
    const std::string& root, const CommittedBy& rule = {});

}  // namespace holdfast
