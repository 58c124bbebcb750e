// WorkDirectory: `<target>.holdfast-convert-tmp`, where a conversion writes the
// future target, beside a journal of its finished pieces.
//
// Thread-safety: one thread. Ownership: holds a lock on the directory, which
// keeps a second conversion to the same target out.
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
    // The paths that the target is a copy of: it gives nobody more permissions.
    std::vector<std::string> copies_of;
    std::string result_id = "";  // as PendingSaveOptions
  };
  // Looks at the target and at the files of an earlier run; removes those that
  // it cannot continue from.
  static Result<std::unique_ptr<WorkDirectory>> Begin(
      const Place& target, const JournalHead& head,
      const Options& options);
  // Removes the directory unless something of it is worth going on with.
  ~WorkDirectory();
  WorkDirectory(const WorkDirectory&) = delete;
  WorkDirectory& operator=(const WorkDirectory&) = delete;

  const std::string& path() const { return path_; }
  // The path where the target grows.
  std::string data_path() const { return path_ + "/data"; }
  // Finished pieces of an earlier run; empty when this is the first.
  const FoundJournal& found() const { return found_; }
  bool is_resumed() const { return !found_.marks.empty(); }
  // Says that it continues, or why it started over; empty: nothing was there.
  const std::string& resume_text() const { return resume_text_; }

  Status Append(std::span<const JournalRecord> records);
  // The failure with advice for the caller: to continue from here when
  // something is kept.
  Status WithAdvice(const Status& failure) const;
  // Nothing here is worth going on with: it is damaged, say.
  void Discard() { is_worth_keeping_ = false; }
  // Removes all that an earlier run left, and begins with nothing.
  Status StartAnew(const std::string& why);

  // The entry `name` of data_path() (data_path() itself when empty) becomes the
  // target, durably, in place of an old one. The directory is removed.
  Status Publish(const std::string& name);
  // Removes the directory, once all of its contents lie elsewhere.
  Status Remove();
  // No later run may go on with this.
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

// The paths that a conversion of the source copies from.
std::vector<std::string> SourcePathsOf(const Checkpoint& source,
                                       const ConvertOptions& options);

// A hash of names, sizes and times (of a URL: versions) of all files at or
// below a path, to see whether a source has changed. 0 when there is no such
// hash.
uint64_t FilesHash(const Place& place);

}  // namespace holdfast
