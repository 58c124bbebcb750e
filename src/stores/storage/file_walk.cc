#include "stores/storage/file_walk.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <utility>
#include <vector>

#include "ground/base/status_macros.h"
#include "stores/storage/directory_entries.h"
#include "stores/storage/errno_status.h"
#include "stores/storage/unique_fd.h"

namespace holdfast::local {
namespace {

class FileWalker {
 public:
  FileWalker(const std::string& root,
             const std::function<void(const WalkedFile&)>& fn,
             const std::function<void(const std::string&)>& on_link)
      : root_(root), fn_(fn), on_link_(on_link) {}

  Status Run() {
    HF_RETURN_IF_ERROR(VisitDirectory("", /*may_be_gone=*/false));
    while (!waiting_.empty()) {
      const std::string next = std::move(waiting_.back());
      waiting_.pop_back();
      HF_RETURN_IF_ERROR(VisitDirectory(next, /*may_be_gone=*/true));
    }
    return Status();
  }

 private:
  Status VisitDirectory(const std::string& path, bool may_be_gone) {
    const std::string full = path.empty() ? root_ : root_ + "/" + path;
    // The root may be a link; a link below it is not followed.
    const int follow = path.empty() ? 0 : O_NOFOLLOW;
    UniqueFd fd(
        ::open(full.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | follow));
    if (!fd.valid()) {
      // A directory that was removed in the meantime has no files.
      if (may_be_gone && errno == ENOENT) return Status();
      return ErrnoStatus(errno, "list", full);
    }
    const int error =
        ForEachEntry(std::move(fd), [&](int own, const dirent& item) {
          VisitEntry(own, path, item.d_name);
          return 0;
        });
    return error == 0 ? Status() : ErrnoStatus(error, "list", full);
  }

  void VisitEntry(int directory, const std::string& parent, const char* name) {
    struct stat info;
    // An entry that was removed in the meantime is skipped.
    if (::fstatat(directory, name, &info, AT_SYMLINK_NOFOLLOW) != 0) return;
    std::string path = parent.empty() ? name : parent + "/" + name;
    if (S_ISLNK(info.st_mode) && on_link_) on_link_(path);
    if (S_ISDIR(info.st_mode)) waiting_.push_back(std::move(path));
    if (!S_ISREG(info.st_mode)) return;
    fn_({std::move(path), static_cast<uint64_t>(info.st_size), info.st_dev,
         info.st_ino, info.st_nlink});
  }

  const std::string& root_;
  const std::function<void(const WalkedFile&)>& fn_;
  const std::function<void(const std::string&)>& on_link_;
  std::vector<std::string> waiting_;
};

}  // namespace

Status WalkFiles(const std::string& directory,
                 const std::function<void(const WalkedFile&)>& fn,
                 const std::function<void(const std::string&)>& on_link) {
  return FileWalker(directory, fn, on_link).Run();
}

}  // namespace holdfast::local
