#include "stores/storage/new_file.h"

#include <fcntl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <system_error>
#include <utility>

#include "ground/base/status_macros.h"
#include "ground/base/text.h"
#include "stores/storage/errno_status.h"
#include "stores/storage/store.h"
#include "stores/storage/tree_access.h"

namespace holdfast {
namespace {

constexpr std::string_view kMark = ".holdfast-tmp.";
constexpr std::string_view kLockSuffix = "__lock";
constexpr size_t kHexDigits = 16;
constexpr size_t kNameBytesMax = 255;
constexpr int kNameAttemptsMax = 16;

bool IsHexDigit(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
}

bool IsTempName(std::string_view name) {
  const size_t tail_bytes = kMark.size() + kHexDigits;
  if (!name.starts_with('.') || name.size() < 1 + tail_bytes) return false;
  const std::string_view tail = name.substr(name.size() - tail_bytes);
  const std::string_view hex = tail.substr(kMark.size());
  return tail.starts_with(kMark) &&
         std::all_of(hex.begin(), hex.end(), IsHexDigit);
}

// Returns at most the first `byte_count_max` bytes, without cutting a UTF-8
// character in half, because some file systems refuse names that are not UTF-8.
std::string_view CutName(std::string_view name, size_t byte_count_max) {
  if (name.size() <= byte_count_max) return name;
  size_t end = byte_count_max;
  // Bytes of the form 10xxxxxx continue a character.
  while (end > 0 && (name[end] & 0xC0) == 0x80) --end;
  return name.substr(0, end);
}

uint64_t RandomNumber() {
  uint64_t number = 0;
  while (::getrandom(&number, sizeof number, 0) !=
         static_cast<ssize_t>(sizeof number)) {
  }
  return number;
}

std::optional<struct stat> FileAt(int directory, const std::string& name) {
  struct stat info;
  const int looked =
      ::fstatat(directory, name.c_str(), &info, AT_SYMLINK_NOFOLLOW);
  if (looked != 0 || !S_ISREG(info.st_mode)) return std::nullopt;
  return info;
}

// Keeps a file that replaces another readable for the same users. Returns 0 or
// an errno.
int KeepAccess(const std::optional<struct stat>& replaced, int fd) {
  return replaced ? KeepAccessOf(*replaced, fd) : 0;
}

}  // namespace

std::string TempName(std::string_view name, uint64_t random) {
  const size_t kept_bytes = kNameBytesMax - 1 - kMark.size() - kHexDigits;
  return "." + std::string(CutName(name, kept_bytes)) + std::string(kMark) +
         HexNumber(random, kHexDigits);
}

bool IsHiddenName(std::string_view name) {
  return name.ends_with(kLockSuffix) || IsTempName(name);
}

Result<std::unique_ptr<NewFile>> NewFile::Create(
    const FileCalls* calls, UniqueFd directory, std::string_view name,
    std::string path, Growth growth, bool must_create) {
  std::unique_ptr<NewFile> file(new NewFile(calls, std::move(directory),
                                            std::string(name), std::move(path),
                                            must_create));
  HF_RETURN_IF_ERROR(growth == Growth::kHidden ? file->OpenHidden()
                                               : file->OpenInPlace());
  return file;
}

NewFile::NewFile(const FileCalls* calls, UniqueFd directory, std::string name,
                 std::string path, bool must_create)
    : calls_(calls),
      directory_(std::move(directory)),
      name_(std::move(name)),
      path_(std::move(path)),
      must_create_(must_create) {}

NewFile::~NewFile() {
  if (!removed_if_dropped_) return;
  // This bypasses the hook, because even a test that fails every call expects
  // no leftover.
  (void)::unlinkat(directory_.get(), grown_name_.c_str(), 0);
}

Status NewFile::OpenHidden() {
  int error = EEXIST;
  for (int i = 0; i < kNameAttemptsMax && error == EEXIST; ++i) {
    grown_name_ = TempName(name_, RandomNumber());
    error = calls_->CreateFile(directory_.get(), grown_name_, path_, fd_);
  }
  if (error != 0) return Fail(error, "create");
  removed_if_dropped_ = true;
  if (must_create_) return {};
  error = KeepAccess(FileAt(directory_.get(), name_), fd_.get());
  return error == 0 ? Status() : Fail(error, "set permissions of");
}

Status NewFile::OpenInPlace() {
  grown_name_ = name_;
  std::optional<struct stat> replaced;
  int error = calls_->CreateFile(directory_.get(), name_, path_, fd_);
  // A second round is needed only if others create the same name at the same
  // time.
  for (int i = 0; i < kNameAttemptsMax && error == EEXIST; ++i) {
    if (must_create_) break;
    replaced = FileAt(directory_.get(), name_);
    error = calls_->Unlink(directory_.get(), name_, path_);
    if (error != 0 && error != ENOENT) return Fail(error, "replace");
    error = calls_->CreateFile(directory_.get(), name_, path_, fd_);
  }
  if (error != 0) return Fail(error, "create");
  removed_if_dropped_ = true;
  error = KeepAccess(replaced, fd_.get());
  return error == 0 ? Status() : Fail(error, "set permissions of");
}

Status NewFile::Fail(int error, std::string_view what) {
  error_ = error;
  dead_ = true;
  return ErrnoStatus(error, what, path_);
}

Status NewFile::CheckLive() const {
  if (!dead_) return {};
  std::string why = ": the writer is finished or has failed";
  // If several threads fail, any of the failures may be the one reported.
  if (error_ != 0) why += ": " + std::generic_category().message(error_);
  return FailedPreconditionError("write " + path_ + why);
}

Status NewFile::WriteAt(uint64_t offset,
                        std::span<const std::string_view> pieces) {
  HF_RETURN_IF_ERROR(CheckLive());
  Status range = CheckWriteRange(offset, TotalBytes(pieces), path_);
  if (!range.ok()) {
    dead_ = true;
    return range;
  }
  const int error = calls_->WriteFull(fd_.get(), offset, pieces, path_);
  return error == 0 ? Status() : Fail(error, "write");
}

void NewFile::StartWriteback(uint64_t offset, uint64_t byte_count) {
  calls_->StartWriteback(fd_.get(), offset, byte_count, path_);
}

Status NewFile::SyncData() {
  HF_RETURN_IF_ERROR(CheckLive());
  const int error = calls_->SyncData(fd_.get(), path_);
  return error == 0 ? Status() : Fail(error, "sync");
}

Status NewFile::Publish() {
  HF_RETURN_IF_ERROR(CheckLive());
  // The file is dead even if the rename fails: the caller cannot know which
  // name the file has, and must not write to it again.
  dead_ = true;
  if (grown_name_ != name_) {
    const int error = calls_->Rename(directory_.get(), grown_name_, name_,
                                     must_create_, path_);
    if (error != 0) return Fail(error, must_create_ ? "create" : "replace");
  }
  removed_if_dropped_ = false;
  return {};
}

}  // namespace holdfast
