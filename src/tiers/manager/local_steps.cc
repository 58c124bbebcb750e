#include "tiers/manager/local_steps.h"

#include <sys/statvfs.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>

#include "ground/base/status_macros.h"
#include "stores/place/make_directories.h"
#include "stores/storage/directory_ops.h"
#include "stores/storage/errno_status.h"
#include "stores/storage/file_store.h"
#include "stores/storage/store.h"
#include "tiers/manager/block_files.h"

namespace holdfast {
namespace {

constexpr std::string_view kTemporarySuffix = ".tmp";
constexpr std::string_view kRemovingSuffix = ".removing";

}  // namespace

Result<std::unique_ptr<LocalSteps>> LocalSteps::Open(
    const std::string& directory, const std::string& run) {
  if (directory.empty() || !CheckKey(run).ok() ||
      run.find('/') != std::string::npos) {
    return InvalidArgumentError("local tier: directory \"" + directory +
                                "\", run \"" + run +
                                "\": want a directory and a plain name");
  }
  const std::string path =
      (std::filesystem::absolute(directory) / run).lexically_normal().string();
  HF_RETURN_IF_ERROR(MakeDirectories(path, std::nullopt));
  Result<DirectoryLock> lock = DirectoryLock::Take(path);
  if (lock.status().code() == StatusCode::kAlreadyExists) {
    return AlreadyExistsError("local tier: " + path +
                              ": another process uses it; give every process "
                              "of a host a directory of its own");
  }
  HF_RETURN_IF_ERROR(lock.status());
  std::unique_ptr<LocalSteps> steps(new LocalSteps(path, *std::move(lock)));
  HF_RETURN_IF_ERROR(steps->RemoveLeftovers());
  return steps;
}

Status LocalSteps::RemoveLeftovers() const {
  HF_ASSIGN_OR_RETURN(const std::vector<std::string> names,
                      local::ListDirectory(path_));
  for (const std::string_view name : names) {
    for (const std::string_view suffix : {kTemporarySuffix, kRemovingSuffix}) {
      if (!name.ends_with(suffix) ||
          !ParseDirectoryName(name.substr(0, name.size() - suffix.size()))) {
        continue;
      }
      HF_RETURN_IF_ERROR(local::RemoveTree(path_ + "/" + std::string(name)));
    }
  }
  return Status();
}

std::string LocalSteps::PathOf(const TierMember& member) const {
  return path_ + "/" + DirectoryNameOf(member);
}

std::string LocalSteps::TemporaryPathOf(const TierMember& member) const {
  return PathOf(member) + std::string(kTemporarySuffix);
}

Result<std::vector<TierMember>> LocalSteps::List() const {
  HF_ASSIGN_OR_RETURN(const std::vector<std::string> names,
                      local::ListDirectory(path_));
  std::vector<TierMember> members;
  for (const std::string& name : names) {
    if (auto member = ParseDirectoryName(name)) {
      members.push_back(*std::move(member));
    }
  }
  std::sort(members.begin(), members.end());
  return members;
}

bool LocalSteps::IsProtected(const TierMember& member) const {
  const auto kind = local::GetPathKind(PathOf(member) + "/" +
                                       std::string(kTierProtectedFile));
  return kind.ok() && *kind == local::PathKind::kFile;
}

Status LocalSteps::Begin(const TierMember& member) {
  HF_RETURN_IF_ERROR(Abandon(member));
  return local::CreateDirectoryNew(TemporaryPathOf(member));
}

Status LocalSteps::Publish(const TierMember& member) {
  HF_RETURN_IF_ERROR(local::SyncDirectory(TemporaryPathOf(member)));
  return local::PublishDirectory(TemporaryPathOf(member), PathOf(member));
}

Status LocalSteps::Abandon(const TierMember& member) {
  const Status removed = local::RemoveTree(TemporaryPathOf(member));
  return removed.code() == StatusCode::kNotFound ? Status() : removed;
}

Status LocalSteps::MarkProtected(const TierMember& member) {
  FileStore store(PathOf(member));
  return store.Write(kTierProtectedFile, "");
}

Status LocalSteps::Remove(const TierMember& member) {
  const std::string path = PathOf(member);
  const std::string removing = path + std::string(kRemovingSuffix);
  // The name is removed first, so that a partly removed step never has it.
  const Status moved = local::PublishDirectory(path, removing);
  if (moved.code() == StatusCode::kNotFound) return Status();
  HF_RETURN_IF_ERROR(moved);
  return local::RemoveTree(removing);
}

Result<uint64_t> LocalSteps::FreeBytes() const {
  struct statvfs info;
  if (statvfs(path_.c_str(), &info) != 0) {
    return ErrnoStatus(errno, "look at", path_);
  }
  return uint64_t{info.f_bavail} * info.f_frsize;
}

uint64_t LocalSteps::BytesOf(const TierMember& member) const {
  const auto files = ListFiles(PathOf(member));
  uint64_t total = 0;
  if (files.ok()) {
    for (const TierFile& file : *files) total += file.byte_count;
  }
  return total;
}

std::vector<TierStep> StepsToRemove(const std::vector<KeptStep>& steps,
                                    int64_t max_to_keep, uint64_t bytes_max) {
  std::vector<TierStep> removed;
  int64_t protected_count = 0;
  uint64_t byte_count = 0;
  // This goes from the newest step to the oldest.
  for (auto it = steps.rbegin(); it != steps.rend(); ++it) {
    // The newest protected step stays, whatever the limits are. Newer steps
    // stay, too, because they may still become protected.
    const bool is_last_good = it->is_protected && protected_count == 0;
    const bool is_beyond_count =
        protected_count >= std::max<int64_t>(max_to_keep, 1) ||
        (protected_count > 0 && !it->is_protected);
    const bool is_beyond_bytes = bytes_max != 0 && protected_count > 0 &&
                                 byte_count + it->byte_count > bytes_max;
    if (!is_last_good && !it->is_in_use &&
        (is_beyond_count || is_beyond_bytes)) {
      removed.push_back(it->step);
      continue;
    }
    byte_count += it->byte_count;
    protected_count += it->is_protected;
  }
  std::reverse(removed.begin(), removed.end());
  return removed;
}

}  // namespace holdfast
