// WorkDirectory: `<target>.holdfast-convert-tmp`, where a conversion writes the
// future target, next to a journal of its finished pieces.
//
// Thread-safety: one thread. Ownership: holds a lock on the directory, which
// keeps out a second conversion to the same target.
// Errors: AlreadyExists (`Destination P already exists.`, or another conversion
// is running), FailedPrecondition (the target to overwrite is not a
// checkpoint), those of the file system.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "holdfast/status.h"
#include "holdfast/tools/convert.h"
#include "stores/place/place.h"
#include "stores/storage/directory_lock.h"
#include "stores/storage/tree_access.h"
#include "tools/convert/journal.h"

namespace holdfast {

inline constexpr std::string_view kWorkSuffix = ".holdfast-convert-tmp";

class WorkDirectory {
 public:
  struct Options {
    bool overwrite = false;
    bool restart = false;
    bool sync = true;
    // The paths whose contents the target copies. Its permissions do not exceed
    // theirs.
    std::vector<std::string> copies_of;
    std::string result_id = "";  // as in PendingSaveOptions
  };
  // Examines the target and the files of an earlier run. Removes those files if
  // it cannot continue from them.
  static Result<std::unique_ptr<WorkDirectory>> Begin(
      const Place& target, const JournalHead& head,
      const Options& options);
  // Removes the directory unless a later run can continue from it.
  ~WorkDirectory();
  WorkDirectory(const WorkDirectory&) = delete;
  WorkDirectory& operator=(const WorkDirectory&) = delete;

  const std::string& path() const { return path_; }
  // Returns the path where the target is written.
  std::string data_path() const { return path_ + "/data"; }
  // Returns the finished pieces of an earlier run; empty for the first run.
  const FoundJournal& found() const { return found_; }
  bool is_resumed() const { return !found_.marks.empty(); }
  // Says that this run continues an earlier one, or why it started over. Empty
  // if there was no earlier run.
  const std::string& resume_text() const { return resume_text_; }

  Status Append(std::span<const JournalRecord> records);
  // Returns the failure. If it is ResourceExhausted and finished pieces are
  // kept, adds the advice to make room and run again.
  Status WithAdvice(const Status& failure) const;
  // Makes the destructor remove the directory. Call it if a later run must not
  // continue from it, for example because of damage.
  void Discard() { is_worth_keeping_ = false; }
  // Removes everything that an earlier run left, and starts empty.
  Status StartAnew(const std::string& why);

  // Moves the entry `name` of data_path() (data_path() itself if `name` is
  // empty) to the target's path, durably, replacing an old target. Then removes
  // the work directory.
  Status Publish(const std::string& name);
  // Removes the directory, once the finished target has been moved out.
  Status Remove();
  // Removes the journal, so that a later run does not continue this one.
  Status DropJournal();

 private:
  WorkDirectory(const Place& target, const JournalHead& head,
                const Options& options);
  Status PublishOver(const std::string& source);
  Status Prepare();
  std::string JournalPath() const { return path_ + "/journal"; }

  const Place target_;
  const std::string path_;
  const JournalHead head_;
  const Options options_;
  const AccessRule access_;
  DirectoryLock lock_;
  FoundJournal found_;
  std::unique_ptr<Journal> journal_;
  std::string resume_text_;
  bool is_begun_ = false;
  bool is_worth_keeping_ = false;
};

// Returns the paths from which a conversion of the source copies.
std::vector<std::string> SourcePathsOf(const Checkpoint& source,
                                       const ConvertOptions& options);

// Returns a hash of the names, sizes and times (for a URL: versions) of all
// files at or below `place`, to detect a changed source. Returns 0 if there is
// no such hash.
uint64_t FilesHash(const Place& place);

}  // namespace holdfast
