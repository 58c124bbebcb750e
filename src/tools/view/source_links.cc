#include "tools/view/source_links.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>

#include "engine/check/view_sources.h"
#include "engine/format/directory_names.h"
#include "ground/base/status_macros.h"
#include "stores/place/directory_ops.h"
#include "stores/place/file_set.h"
#include "stores/storage/errno_status.h"
#include "stores/storage/new_file.h"
#include "stores/storage/tree_access.h"
#include "stores/storage/unique_fd.h"
#include "tools/view/bucket_sources.h"

namespace holdfast {
namespace {

namespace fs = std::filesystem;

Status LinkError(int error, LinkKind kind, const std::string& from,
                 const std::string& to) {
  const bool is_unable = error == EXDEV || error == EPERM ||
                         error == EOPNOTSUPP || error == EINVAL ||
                         error == ENOTTY || error == EMLINK;
  if (!is_unable) return ErrnoStatus(error, "link " + from + " to", to);
  return UnimplementedError(
      "link " + from + " to " + to + ": the file system does not take \"" +
      std::string(LinkKindName(kind)) + "\" here (errno " +
      std::to_string(error) +
      "); choose another of symlink, hard, reflink, copy");
}

// Copies some bytes. Copies them in this process if the kernel refuses to, as
// it does between two file systems.
ssize_t CopySome(int from, int to, uint64_t offset, uint64_t byte_count) {
  auto from_offset = static_cast<off64_t>(offset);
  auto to_offset = from_offset;
  const ssize_t copied =
      ::copy_file_range(from, &from_offset, to, &to_offset, byte_count, 0);
  const bool is_unable = copied < 0 && (errno == EXDEV || errno == ENOSYS ||
                                        errno == EOPNOTSUPP || errno == EINVAL);
  if (!is_unable) return copied;
  constexpr uint64_t kStepBytes = 1 << 20;
  std::string bytes(std::min(kStepBytes, byte_count), '\0');
  const ssize_t got =
      ::pread(from, bytes.data(), bytes.size(), static_cast<off_t>(offset));
  if (got <= 0) return got;
  return ::pwrite(to, bytes.data(), static_cast<size_t>(got),
                  static_cast<off_t>(offset));
}

Status CopyBytes(int from, int to, const SourceFile& row,
                 const std::string& path) {
  for (uint64_t done = 0; done < row.byte_count;) {
    const ssize_t count = CopySome(from, to, done, row.byte_count - done);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return ErrnoStatus(errno, "copy to", path);
    if (count == 0) {
      return DataLossError("copy " + row.from +
                           ": the file became shorter while it was copied");
    }
    done += static_cast<uint64_t>(count);
  }
  return Status();
}

Status CloneOrCopy(LinkKind kind, const SourceFile& row,
                   const std::string& path, bool sync) {
  const UniqueFd from(::open(row.from.c_str(), O_RDONLY | O_CLOEXEC));
  if (!from.valid()) return ErrnoStatus(errno, "read", row.from);
  const UniqueFd to(::open(path.c_str(),
                           O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC,
                           0666 & BitsAt(row.from)));
  if (!to.valid()) return ErrnoStatus(errno, "write", path);
  if (kind == LinkKind::kReflink) {
    if (::ioctl(to.get(), FICLONE, from.get()) != 0) {
      const int error = errno;
      ::unlink(path.c_str());
      return LinkError(error, kind, row.from, path);
    }
  } else {
    HF_RETURN_IF_ERROR(CopyBytes(from.get(), to.get(), row, path));
  }
  if (sync && ::fsync(to.get()) != 0) return ErrnoStatus(errno, "sync", path);
  return Status();
}

// Returns the content of a relative link to the file. Resolves the links in
// both paths, because the kernel resolves the content from the real directory
// of the link.
Result<std::string> RelativeTarget(const SourceFile& row,
                                   const fs::path& directory) {
  std::error_code error;
  const fs::path here = fs::weakly_canonical(directory, error);
  if (error) {
    return ErrnoStatus(error.value(), "find", directory.string());
  }
  const fs::path there = fs::path(row.from).lexically_relative(here);
  return there.empty() ? row.from : there.string();
}

Status PlaceOne(const std::string& directory, const SourceFile& row,
                LinkKind kind, bool sync, const std::string& final_path) {
  const std::string path = directory + "/" + row.path;
  std::error_code error;
  fs::create_directories(fs::path(path).parent_path(), error);
  if (error) return ErrnoStatus(error.value(), "create directory for", path);
  if (kind == LinkKind::kSymbolic) {
    const fs::path seen_from = final_path.empty() ? directory : final_path;
    HF_ASSIGN_OR_RETURN(
        const std::string target,
        RelativeTarget(row, (seen_from / row.path).parent_path()));
    if (::symlink(target.c_str(), path.c_str()) == 0) return Status();
    return LinkError(errno, kind, row.from, path);
  }
  if (kind == LinkKind::kHard) {
    const int made = ::linkat(AT_FDCWD, row.from.c_str(), AT_FDCWD,
                              path.c_str(), AT_SYMLINK_FOLLOW);
    return made == 0 ? Status() : LinkError(errno, kind, row.from, path);
  }
  return CloneOrCopy(kind, row, path, sync);
}

std::string InSources(const std::string& name) {
  return std::string(kSourcesDirectory) + "/" + name;
}

}  // namespace

bool IsCompanion(std::string_view name, uint64_t byte_count) {
  if (name.starts_with('.') || name.starts_with('_')) return false;
  if (name == kCommitMarkerFile) return false;  // of Orbax
  if (byte_count > kCompanionBytesMax) return false;
  for (const std::string_view suffix :
       {".json", ".txt", ".model", ".jinja", ".md"}) {
    if (name.ends_with(suffix)) return true;
  }
  return false;
}

std::string SourceNames::NameOf(const std::string& path) const {
  const fs::path inside = fs::path(path).lexically_relative(directory_);
  const bool is_inside = !inside.empty() && *inside.begin() != "..";
  if (!is_inside) return InSources(fs::path(path).filename().string());
  const bool keeps_name =
      inside.extension() == ".safetensors" && !inside.has_parent_path();
  return keeps_name ? inside.string() : InSources(inside.string());
}

Result<uint32_t> SourceNames::Add(const std::string& path) {
  const auto [known, is_new] =
      numbers_.emplace(path, static_cast<uint32_t>(rows_->size()));
  if (!is_new) return known->second;
  std::string name = NameOf(path);
  if (!taken_.insert(name).second) {
    name = InSources(std::to_string(known->second) + "/" +
                     fs::path(path).filename().string());
  }
  const Place place(path);
  if (place.is_remote()) {
    HF_ASSIGN_OR_RETURN(ObjectEntry object, DescribeObject(place));
    rows_->push_back({name, object.byte_count, 0, path});
    versions_.push_back(std::move(object.version));
    return known->second;
  }
  HF_ASSIGN_OR_RETURN(SourceFile row, DescribeSource(name, Place(path)));
  // Resolve directories that are links, because these may be removed later.
  std::error_code error;
  const fs::path real = fs::canonical(path, error);
  if (!error) row.from = real.string();
  // A copy's own time is not recorded, because it may change when the view is
  // copied.
  if (is_own_) row.modified_ns = 0;
  rows_->push_back(std::move(row));
  return known->second;
}

Status PlaceSources(const std::string& directory,
                    const std::vector<SourceFile>& rows, LinkKind kind,
                    bool sync, const std::string& final_path) {
  for (const SourceFile& row : rows) {
    HF_RETURN_IF_ERROR(PlaceOne(directory, row, kind, sync, final_path));
  }
  return Status();
}

Status CopyCompanions(const std::string& from, const Place& directory,
                      bool sync) {
  HF_ASSIGN_OR_RETURN(const std::vector<std::string> names,
                      ListDirectory(Place(from)));
  const std::shared_ptr<Store> to = directory.OpenStore();
  for (const std::string& name : names) {
    const fs::path file = from + "/" + name;
    std::error_code error;
    if (!fs::is_regular_file(file, error) ||
        !IsCompanion(name, fs::file_size(file, error))) {
      continue;
    }
    // MakeFileSet also opens links, which these files are in a model hub's
    // cache.
    HF_ASSIGN_OR_RETURN(const auto store,
                        MakeFileSet({{name, Place(file.string())}}));
    HF_ASSIGN_OR_RETURN(const Bytes bytes, store->Read(name));
    HF_RETURN_IF_ERROR(
        to->Write(name, bytes.view(), {.sync = sync, .atomic = false}));
  }
  return to->Flush();
}

}  // namespace holdfast
