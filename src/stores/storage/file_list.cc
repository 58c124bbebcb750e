#include "stores/storage/file_list.h"

#include <dirent.h>
#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <utility>
#include <vector>

#include "ground/base/status_macros.h"
#include "stores/storage/directory_entries.h"
#include "stores/storage/errno_status.h"
#include "stores/storage/new_file.h"
#include "stores/storage/path_parts.h"

namespace holdfast {
namespace {

struct Entry {
  std::string key;  // ends in '/' for a directory
  uint64_t byte_count = 0;

  bool is_directory() const { return key.back() == '/'; }
};

class Lister {
 public:
  Lister(const FileCalls& calls, int root, std::string_view root_path,
         std::string_view prefix, const ListFunction& fn)
      : calls_(calls),
        root_(root),
        root_path_(root_path),
        prefix_(prefix),
        fn_(fn) {}

  // Visits everything below `directory`, which is "" or ends in '/'. Each level
  // keeps its entries in memory, but no open descriptor, while it visits the
  // levels below.
  Status Walk(const std::string& directory) {
    HF_ASSIGN_OR_RETURN(std::vector<Entry> entries, ReadEntries(directory));
    for (const Entry& entry : entries) {
      HF_RETURN_IF_ERROR(entry.is_directory()
                             ? Walk(entry.key)
                             : fn_(entry.key, {entry.byte_count}));
    }
    return {};
  }

 private:
  // Returns the entries sorted. A directory that no longer exists, or is a
  // symbolic link, counts as empty.
  Result<std::vector<Entry>> ReadEntries(const std::string& directory) const {
    std::vector<Entry> entries;
    const std::string path(ParentKey(directory));  // without the last '/'
    UniqueFd fd;
    int error = calls_.OpenBeneath(root_, path, O_RDONLY | O_DIRECTORY,
                                   FileCalls::Links::kNone, fd);
    if (error == ENOENT || error == ENOTDIR || error == ELOOP) return entries;
    if (error == 0) error = calls_.Ask("readdir", directory);
    if (error == 0) {
      error =
          ForEachEntry(std::move(fd), [&](int descriptor, const dirent& item) {
            return AddEntry(descriptor, item, directory, entries);
          });
    }
    if (error != 0) {
      return ErrnoStatus(error, "list",
                         std::string(root_path_) + "/" + directory);
    }
    std::sort(entries.begin(), entries.end(),
              [](const Entry& a, const Entry& b) { return a.key < b.key; });
    return entries;
  }

  int AddEntry(int descriptor, const dirent& item, const std::string& directory,
               std::vector<Entry>& entries) const {
    const std::string_view name = item.d_name;
    if (IsHiddenName(name)) return 0;
    Entry entry{directory + std::string(name), 0};
    // d_type may be unknown, and a link's d_type is not that of its target.
    // Such names are inspected.
    bool is_directory = item.d_type == DT_DIR;
    if (!entry.key.starts_with(prefix_)) return 0;
    if (!is_directory) {
      struct stat info;
      const int error = Inspect(descriptor, item, entry.key, info);
      if (error != 0) return IsNothing(error) ? 0 : error;
      is_directory = S_ISDIR(info.st_mode);
      entry.byte_count = static_cast<uint64_t>(info.st_size);
    }
    if (is_directory) entry.key += '/';
    entries.push_back(std::move(entry));
    return 0;
  }

  // Returns true if the entry no longer exists, or is a link to nothing that
  // may be listed. Other errors mean that the system cannot tell, and ignoring
  // them could silently omit a file.
  static bool IsNothing(int error) {
    return error == ENOENT || error == ENOTDIR || error == ELOOP ||
           error == EXDEV || error == EACCES || error == ENAMETOOLONG;
  }

  // Sets `info` to the state of the file or directory that the entry leads to.
  // Returns ENOENT for anything else.
  int Inspect(int descriptor, const dirent& item, const std::string& key,
              struct stat& info) const {
    if (::fstatat(descriptor, item.d_name, &info, AT_SYMLINK_NOFOLLOW) != 0) {
      return errno;
    }
    if (S_ISREG(info.st_mode) || S_ISDIR(info.st_mode)) return 0;
    return S_ISLNK(info.st_mode) ? InspectLinked(key, info) : ENOENT;
  }

  int InspectLinked(const std::string& key, struct stat& info) const {
    UniqueFd fd;
    int error =
        calls_.OpenBeneath(root_, key, O_PATH, FileCalls::Links::kInside, fd);
    if (error == 0) error = calls_.Stat(fd.get(), key, info);
    if (error != 0) return error;
    return S_ISREG(info.st_mode) ? 0 : ENOENT;
  }

  const FileCalls& calls_;
  const int root_;
  const std::string_view root_path_;
  const std::string_view prefix_;
  const ListFunction& fn_;
};

}  // namespace

Status ListFiles(const FileCalls& calls, int root, std::string_view root_path,
                 std::string_view prefix, const ListFunction& fn) {
  const std::string_view parent = ParentKey(prefix);
  const bool has_slash = prefix.find('/') != std::string_view::npos;
  // No key starts with this prefix, and the walk must not start outside the
  // root.
  if (has_slash && !CheckKey(parent).ok()) return {};
  const std::string start = has_slash ? std::string(parent) + "/" : "";
  return Lister(calls, root, root_path, prefix, fn).Walk(start);
}

}  // namespace holdfast
