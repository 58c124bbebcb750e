#include "engine/commit/by_files.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <mutex>
#include <string>
#include <system_error>
#include <vector>

#include "engine/commit/replaceable.h"
#include "engine/commit/unfinished.h"
#include "engine/format/directory_names.h"
#include "ground/base/status_macros.h"
#include "ground/json/text.h"
#include "stores/place/directory_ops.h"
#include "stores/storage/errno_status.h"
#include "stores/storage/file_store.h"

namespace holdfast {
namespace {

namespace fs = std::filesystem;

void SayOnce(const Place& place) {
  static std::once_flag said;
  std::call_once(said, [&] {
    std::fprintf(stderr,
                 "holdfast: %s: this file system cannot rename directories; "
                 "checkpoints there are put in place file by file, and %s "
                 "says that one is complete\n",
                 place.parent().path().c_str(),
                 std::string(kCommitMarkerFile).c_str());
  });
}

// Writes to `target` the `_CHECKPOINT_METADATA` of `source`, but without the
// commit time, as for a checkpoint that was only begun. Writes nothing if
// `source` has none.
Status WriteBegunMetadata(const Place& source, FileStore& target) {
  FileStore store(source.path());
  const auto text = store.Read(kCheckpointMetadataFile);
  if (text.status().code() == StatusCode::kNotFound) return Status();
  HF_RETURN_IF_ERROR(text.status());
  auto metadata = ParseJsonText(text->view());
  if (!metadata.ok() || !metadata->is_object()) return Status();
  (*metadata)["commit_timestamp_nsecs"] = nullptr;
  HF_RETURN_IF_ERROR(target.Write(kCheckpointMetadataFile, metadata->dump()));
  return target.SyncNames();
}

bool HasNoLinks(int error) {
  return error == EPERM || error == EMLINK || error == ENOSYS ||
         error == EOPNOTSUPP || error == EXDEV;
}

class FilesMover {
 public:
  FilesMover(const Place& source, const Place& target, bool keeps_source)
      : source_(source.path()),
        target_place_(target),
        target_(target.path()),
        keeps_source_(keeps_source) {}

  Status Run() {
    HF_ASSIGN_OR_RETURN(const local::DirectoryTree tree,
                        local::ListTree(source_));
    HF_ASSIGN_OR_RETURN(const std::vector<std::string> files,
                        EntriesBelow(Place(source_)));
    FileStore store(target_);
    // Until Finish the target is marked as begun and not committed, so that a
    // crash leaves nothing that could be taken for a checkpoint.
    HF_RETURN_IF_ERROR(WriteBegunMetadata(Place(source_), store));
    // Parent directories come last in the list.
    for (auto it = tree.directories.rbegin(); it != tree.directories.rend();
         ++it) {
      HF_RETURN_IF_ERROR(MakeDirectory(*it));
    }
    for (const std::string& file : files) {
      if (file == kCheckpointMetadataFile || file == kCommitMarkerFile) {
        continue;
      }
      HF_RETURN_IF_ERROR(Move(file));
    }
    HF_RETURN_IF_ERROR(SyncNames(target_, tree.directories));
    // A file's new name is durable only when both directories are synced.
    if (!keeps_source_) {
      HF_RETURN_IF_ERROR(SyncNames(source_, tree.directories));
    }
    return Finish(store);
  }

 private:
  static Status SyncNames(const std::string& root,
                          const std::vector<std::string>& directories) {
    for (const std::string& directory : directories) {
      HF_RETURN_IF_ERROR(local::SyncDirectory(root + "/" + directory));
    }
    return local::SyncDirectory(root);
  }

  // Creates the directory with the permissions of its original.
  Status MakeDirectory(const std::string& name) {
    const std::string made = target_ + "/" + name;
    HF_RETURN_IF_ERROR(local::CreateDirectoryNew(made));
    struct stat wanted, is;
    if (::stat((source_ + "/" + name).c_str(), &wanted) != 0 ||
        ::stat(made.c_str(), &is) != 0 || wanted.st_mode == is.st_mode) {
      return Status();
    }
    return local::SetPermissions(made, wanted.st_mode & 07777);
  }

  Status Move(const std::string& file) {
    const std::string from = source_ + "/" + file;
    const std::string to = target_ + "/" + file;
    if (!keeps_source_) {
      return ::rename(from.c_str(), to.c_str()) == 0
                 ? Status()
                 : ErrnoStatus(errno, "rename " + from + " to", to);
    }
    if (::linkat(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), 0) == 0) {
      return Status();
    }
    if (!HasNoLinks(errno)) {
      return ErrnoStatus(errno, "link " + from + " to", to);
    }
    std::error_code error;
    fs::copy(from, to, fs::copy_options::copy_symlinks, error);
    if (error) return ErrnoStatus(error.value(), "copy " + from + " to", to);
    HF_ASSIGN_OR_RETURN(const local::PathKind kind, local::GetPathKind(to));
    return kind == local::PathKind::kFile ? local::SyncFile(to) : Status();
  }

  // Writes the last two files. Once the metadata is written, the target is a
  // checkpoint.
  Status Finish(FileStore& store) {
    FileStore from(source_);
    for (const std::string_view name :
         {kCheckpointMetadataFile, kCommitMarkerFile}) {
      const auto text = from.Read(name);
      if (text.status().code() == StatusCode::kNotFound) continue;
      HF_RETURN_IF_ERROR(text.status());
      HF_RETURN_IF_ERROR(store.Write(name, text->view()));
      HF_RETURN_IF_ERROR(store.SyncNames());
    }
    HF_RETURN_IF_ERROR(WriteMissingMarker(target_place_));
    HF_RETURN_IF_ERROR(local::SyncDirectory(target_));
    return SyncDirectory(target_place_.parent());
  }

  const std::string source_;
  const Place target_place_;
  const std::string target_;
  const bool keeps_source_;
};

Result<DirectoryLock> NameByFiles(const Place& source, const Place& target,
                                  bool keeps_source) {
  SayOnce(target);
  HF_ASSIGN_OR_RETURN(DirectoryLock lock, DirectoryLock::Make(target.path()));
  const Status moved = FilesMover(source, target, keeps_source).Run();
  if (moved.ok()) return lock;
  (void)RemoveCommitMarker(target);
  (void)lock.Remove(target.path());
  return moved;
}

}  // namespace

Result<DirectoryLock> CopyByFiles(const Place& source, const Place& target) {
  return NameByFiles(source, target, /*keeps_source=*/true);
}

Result<DirectoryLock> MoveByFiles(const Place& source, const Place& target) {
  return NameByFiles(source, target, /*keeps_source=*/false);
}

Status GiveName(const Place& source, const Place& target) {
  const Status published = PublishDirectory(source, target);
  if (published.code() != StatusCode::kUnimplemented) return published;
  HF_RETURN_IF_ERROR(CopyByFiles(source, target).status());
  HF_RETURN_IF_ERROR(MarkBegunOnly(source));
  HF_RETURN_IF_ERROR(EmptyBegunOnly(source));
  return RemoveTree(source);
}

Status MarkBegunOnly(const Place& directory) {
  // A directory that lacks only its marker would otherwise be recovered as a
  // complete checkpoint (RecoverReplaced).
  HF_RETURN_IF_ERROR(RemoveCommitMarker(directory));
  HF_RETURN_IF_ERROR(SyncDirectory(directory));
  FileStore store(directory.path());
  HF_RETURN_IF_ERROR(WriteBegunMetadata(directory, store));
  return SyncDirectory(directory);
}

Status EmptyBegunOnly(const Place& directory) {
  HF_ASSIGN_OR_RETURN(const std::vector<std::string> names,
                      ListDirectory(directory));
  for (const std::string& name : names) {
    // Remove this file last: it shows that the directory is not a checkpoint.
    if (name == kCheckpointMetadataFile) continue;
    const std::string path = (directory / name).path();
    HF_ASSIGN_OR_RETURN(const PathKind kind, GetPathKind(Place(path)));
    if (kind == PathKind::kDirectory) {
      HF_RETURN_IF_ERROR(local::RemoveTree(path));
    } else if (::unlink(path.c_str()) != 0 && errno != ENOENT) {
      return ErrnoStatus(errno, "remove", path);
    }
  }
  return SyncDirectory(directory);
}

}  // namespace holdfast
