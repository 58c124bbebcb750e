// WorkDirectory: `<target>.holdfast-convert-tmp`, where a conversion writes the
// future target, next to a journal of its finished pieces.
//
// Thread-safety: one thread. Ownership: holds a lock on the directory, which
// keeps out a second conversion to the same target.
// Errors: AlreadyExists (`Destination P already exists.`, or another conversion
// is running), FailedPrecondition (overwrite of something other than a
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
    // The paths that the target copies: its permissions are limited to theirs.
    std::vector<std::string> copies_of;
    std::string result_id = "";  // as PendingSaveOptions
  };
  // Examines the target and the files of an earlier run; removes files that it
  // cannot continue from.
  static Result<std::unique_ptr<WorkDirectory>> Begin(
      const Place& target, const JournalHead& head,
      const Options& options);
  // Removes the directory unless some of it is worth continuing from.
  ~WorkDirectory();
  WorkDirectory(const WorkDirectory&) = delete;
  WorkDirectory& operator=(const WorkDirectory&) = delete;

  const std::string& path() const { return path_; }
  // The path where the target is written.
  std::string data_path() const { return path_ + "/data"; }
  // The finished pieces of an earlier run; empty for the first run.
  const FoundJournal& found() const { return found_; }
  bool is_resumed() const { return !found_.marks.empty(); }
  // Says that this run continues, or why it started over; empty if nothing
  // existed.
  const std::string& resume_text() const { return resume_text_; }

  Status Append(std::span<const JournalRecord> records);
  // Adds advice for the caller to the failure: run again to continue, if
  // something is kept.
  Status WithAdvice(const Status& failure) const;
  // Call when nothing here is worth continuing from, for example because of
  // damage.
  void Discard() { is_worth_keeping_ = false; }
  // Removes everything that an earlier run left, and starts empty.
  Status StartAnew(const std::string& why);

  // Durably makes the entry `name` of data_path() (data_path() itself when
  // empty) the target, replacing an old one. Removes the directory.
  Status Publish(const std::string& name);
  // Removes the directory, after all of its contents were moved elsewhere.
  Status Remove();
  // Prevents later runs from continuing this one.
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

// The paths from which a conversion of the source copies.
std::vector<std::string> SourcePathsOf(const Checkpoint& source,
                                       const ConvertOptions& options);

// A hash of the names, sizes and times (for a URL: versions) of all files at or
// below a path, to detect a changed source. 0 when no such hash exists.
uint64_t FilesHash(const Place& place);

}  // namespace holdfast
