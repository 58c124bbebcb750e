// NewFile: a file that is being written. It grows under a hidden name in its
// target's directory, and takes the target's name in one step when it is
// complete. In a directory that no reader can see yet, it grows under its final
// name, which saves a rename.
//
// Hidden names are ".<name>.holdfast-tmp.<16 hex digits>", with <name> cut so
// that the total fits in 255 bytes. No listing shows them. The destructor
// removes a file that was not published, so only a killed process leaves any
// behind.
// Thread-safety: WriteAt from any thread; the rest from one thread at a time.
// Ownership: owns its descriptors; borrows the FileCalls. Units: bytes.
// Errors: as errno_status.h, with the target's path.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "holdfast/status.h"
#include "stores/storage/file_calls.h"
#include "stores/storage/unique_fd.h"

namespace holdfast {

// Returns the hidden name for `name`, with `random` as its hex digits.
std::string TempName(std::string_view name, uint64_t random);
// Returns true for names that no listing shows: those of TempName, and those
// ending in "__lock", which TensorStore's file driver uses for its locks.
bool IsHiddenName(std::string_view name);

class NewFile {
 public:
  enum class Growth : uint8_t { kHidden, kInPlace };

  // Creates the file. `name` is its final name in `directory`; `path` is for
  // messages. With kInPlace, an existing file of that name is removed first;
  // with `must_create` it is AlreadyExists instead.
  static Result<std::unique_ptr<NewFile>> Create(
      const FileCalls* calls, UniqueFd directory, std::string_view name,
      std::string path, Growth growth, bool must_create);
  ~NewFile();
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;

  Status WriteAt(uint64_t offset, std::span<const std::string_view> pieces);
  // See FileCalls::StartWriteback.
  void StartWriteback(uint64_t offset, uint64_t byte_count);
  // Waits until all bytes are on stable storage. A failure is final: the kernel
  // may have dropped the bytes, and a second sync would falsely succeed.
  Status SyncData();
  // Gives the file its final name. AlreadyExists if `must_create` was set and
  // the target exists.
  Status Publish();

 private:
  NewFile(const FileCalls* calls, UniqueFd directory, std::string name,
          std::string path, bool must_create);
  Status OpenHidden();
  Status OpenInPlace();
  // Records the failure and returns its Status. The file can no longer be
  // published.
  Status Fail(int error, std::string_view what);
  Status CheckLive() const;

  const FileCalls* const calls_;
  const UniqueFd directory_;
  const std::string name_;
  const std::string path_;
  const bool must_create_;
  std::string grown_name_;  // a hidden name, or name_ itself
  UniqueFd fd_;
  bool removed_if_dropped_ = false;
  std::atomic<bool> dead_{false};
  std::atomic<int> error_{0};  // the errno that set dead_
};

}  // namespace holdfast
