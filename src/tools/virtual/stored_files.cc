#include "tools/virtual/stored_files.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <mutex>
#include <set>
#include <utility>

#include "engine/commit/tree_listing.h"
#include "engine/format/directory_names.h"
#include "ground/base/status_macros.h"
#include "ground/base/xxh64.h"
#include "holdfast/detail/places.h"
#include "stores/storage/errno_status.h"
#include "stores/storage/unique_fd.h"
#include "stores/storage/url_path.h"
#include "tools/copy/copy_plan.h"
#include "tools/virtual/stored_sums.h"

namespace holdfast {
namespace {

namespace fs = std::filesystem;

// A checkpoint without a list is verified before the first of its files is
// read, unless it is larger than this. Clients do not wait minutes for a
// response.
constexpr uint64_t kVerifiedBytesMax = uint64_t{4} << 30;

bool IsBelow(const fs::path& directory, const fs::path& path) {
  const auto [end, unused] = std::mismatch(directory.begin(), directory.end(),
                                           path.begin(), path.end());
  return end == directory.end();
}

// Decides which listed files may be read: those inside the checkpoint, and a
// view's sources.
class MayBeRead {
 public:
  explicit MayBeRead(const CheckpointInfo& info) {
    std::error_code error;
    place_ = fs::canonical(info.path, error);
    for (const std::string& source : info.sources) {
      const fs::path real = fs::canonical(source, error);
      if (!error) sources_.insert(real);
    }
  }

  bool operator()(const std::string& path) const {
    std::error_code error;
    const fs::path real = fs::canonical(path, error);
    return !error && (IsBelow(place_, real) || sources_.contains(real));
  }

 private:
  fs::path place_;
  std::set<fs::path> sources_;
};

Status ReadLocal(const std::string& path, const std::string& version,
                 uint64_t offset, std::span<char> target) {
  const UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat info = {};
  if (!fd.valid() || fstat(fd.get(), &info) != 0) {
    return ErrnoStatus(errno, "read", path);
  }
  if (VersionOfFile(info) != version) {
    return DataLossError("read " + path +
                         ": the file is another than when the checkpoint was "
                         "opened");
  }
  while (!target.empty()) {
    const ssize_t count = pread(fd.get(), target.data(), target.size(), offset);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return ErrnoStatus(errno, "read", path);
    if (count == 0) {
      return DataLossError("read " + path + ": it ends at byte " +
                           std::to_string(offset));
    }
    target = target.subspan(count);
    offset += count;
  }
  return Status();
}

// Returns false for user-space file systems, which may change a file's inode
// number at any time.
bool HasSteadyInodes(const std::string& path) {
  struct statfs info = {};
  return ::statfs(path.c_str(), &info) == 0 && info.f_type != FUSE_SUPER_MAGIC;
}

// Identifies the directory that has the checkpoint's name. Another directory
// with this name is another checkpoint.
struct Identity {
  dev_t device = 0;
  ino_t inode = 0;

  static Identity Of(const std::string& path) {
    struct stat info = {};
    if (::stat(path.c_str(), &info) != 0) return {};
    return {info.st_dev, HasSteadyInodes(path) ? info.st_ino : 0};
  }
  friend bool operator==(const Identity&, const Identity&) = default;
};

// Lists the checkpoint's files that may be read, then the files in the other
// places from which it is read.
Result<std::vector<TreeListing>> ListReadFiles(const CheckpointInfo& info) {
  std::vector<TreeListing> listings(1);
  HF_ASSIGN_OR_RETURN(listings[0],
                      ListWholeTree(Place(info.path), LinkPolicy::kOnlyFiles));
  std::vector<std::string> others = info.bases;
  if (listings[0].is_local()) {
    const MayBeRead may_be_read(info);
    std::erase_if(listings[0].files, [&](const ListedFile& file) {
      return !may_be_read(listings[0].PathOf(file));
    });
    for (const auto& [name, directory] : info.items) {
      const std::string path = info.path + "/" + directory;
      std::error_code error;
      if (!directory.empty() && fs::is_symlink(path, error)) {
        others.push_back(path);
      }
    }
  }
  for (const std::string& path : others) {
    HF_ASSIGN_OR_RETURN(listings.emplace_back(),
                        ListWholeTree(Place(path), LinkPolicy::kOnlyFiles));
  }
  // Leases and journals come and go, and nothing is read from them.
  for (TreeListing& listing : listings) {
    std::erase_if(listing.files,
                  [](const ListedFile& file) { return IsScaffold(file.name); });
  }
  return listings;
}

uint64_t HashOf(const std::vector<TreeListing>& listings) {
  Xxh64 hash;
  for (const TreeListing& listing : listings) {
    const uint64_t one = ListingHash(listing);
    hash.Update({reinterpret_cast<const char*>(&one), sizeof one});
  }
  return hash.Digest();
}

Status ChangedError(const std::string& path) {
  return DataLossError(path +
                       ": the checkpoint was replaced or changed since it was "
                       "opened; open it again");
}

// Returns the version, without the inode number unless inodes are steady.
std::string_view SteadyPart(std::string_view version, bool has_steady_inodes) {
  return has_steady_inodes ? version : version.substr(version.find('.') + 1);
}

Status CheckLocalFiles(const TreeListing& listing) {
  const bool is_steady = HasSteadyInodes(listing.place.path());
  for (const ListedFile& file : listing.files) {
    const std::string path = listing.PathOf(file);
    struct stat info = {};
    if (::stat(path.c_str(), &info) != 0) return ChangedError(path);
    const std::string now = VersionOfFile(info);
    if (SteadyPart(now, is_steady) != SteadyPart(file.version, is_steady) ||
        static_cast<uint64_t>(info.st_size) != file.byte_count) {
      return ChangedError(path);
    }
  }
  return Status();
}

bool IsSameFile(const ListedFile& a, const ListedFile& b) {
  return a.version == b.version && a.byte_count == b.byte_count;
}

// Checks that objects still have the listed versions. If the bucket cannot be
// listed, checks only a few files, lists of checksums first. A server that does
// not respond proves nothing about its files.
Status CheckObjects(const TreeListing& listing) {
  if (listing.bucket->traits().can_list) {
    const Result<TreeListing> now = ListWholeTree(listing.place);
    if (!now.ok()) return Status();
    for (const ListedFile& file : listing.files) {
      const ListedFile* const there = now->Find(file.name);
      if (there == nullptr || !IsSameFile(*there, file)) {
        return ChangedError(listing.PathOf(file));
      }
    }
    return Status();
  }
  constexpr size_t kAskedMax = 4;
  std::vector<const ListedFile*> asked;
  for (const ListedFile& file : listing.files) asked.push_back(&file);
  std::stable_partition(asked.begin(), asked.end(), [](const auto* file) {
    return FileNameOf("/" + file->name) == kDigestFile;
  });
  asked.resize(std::min(asked.size(), kAskedMax));
  for (const ListedFile* file : asked) {
    const Result<ObjectEntry> now = listing.bucket->Head(listing.KeyOf(*file));
    const bool is_gone = now.status().code() == StatusCode::kNotFound;
    if (is_gone ||
        (now.ok() && !IsSameFile({"", now->byte_count, now->version}, *file))) {
      return ChangedError(listing.PathOf(*file));
    }
  }
  return Status();
}

class ListedFiles final : public StoredFiles {
 public:
  explicit ListedFiles(const CheckpointInfo& info)
      : info_(info), identity_(Identity::Of(info.path)) {}

  Status ListFiles() {
    HF_ASSIGN_OR_RETURN(listings_, ListReadFiles(info_));
    for (size_t i = 0; i < own().files.size(); ++i) {
      const ListedFile& file = own().files[i];
      const std::string name =
          file.name.empty() ? own().place.name() : file.name;
      // Keys with parts such as ".." are left out. No reader takes such an
      // object for a file.
      if (!StaysInside(name)) continue;
      HF_RETURN_IF_ERROR(names_.AddFile(name, file.byte_count, i));
    }
    return Status();
  }

  Result<VirtualEntry> Stat(std::string_view name) const override {
    HF_ASSIGN_OR_RETURN(const StoredSums* sums, Sums());
    Result<VirtualEntry> entry = names_.Stat(name);
    if (!entry.ok()) HF_RETURN_IF_ERROR(sums->CheckGone(name));
    if (entry.ok() && !entry->is_directory) {
      HF_RETURN_IF_ERROR(sums->CheckSize(name, entry->byte_count));
    }
    return entry;
  }

  Result<std::vector<VirtualEntry>> List(
      std::string_view directory) const override {
    HF_ASSIGN_OR_RETURN(const StoredSums* sums, Sums());
    HF_RETURN_IF_ERROR(sums->CheckNoneGone(directory));
    return names_.List(directory);
  }

  Status ReadInto(std::string_view name, uint64_t offset,
                  std::span<char> target) const override {
    HF_ASSIGN_OR_RETURN(const StoredSums* sums, Sums());
    HF_ASSIGN_OR_RETURN(const size_t number, names_.NumberOf(name));
    const std::string& listed = own().files[number].name;
    const bool can_verify = own().byte_count() <= kVerifiedBytesMax;
    if (sums->is_empty() && can_verify) {
      HF_ASSIGN_OR_RETURN(sums, VerifiedSums(listed));
    }
    return sums->ReadInto(listed, offset, target,
                          [&](uint64_t at, std::span<char> bytes) {
                            return ReadStored(number, at, bytes);
                          });
  }

  uint64_t hash() const override { return HashOf(listings_); }

  bool IsCurrent() const override {
    if (!own().is_local()) {
      const std::lock_guard lock(watch_mutex_);
      return changed_.ok();
    }
    const auto now = ListReadFiles(info_);
    return now.ok() && HashOf(*now) == hash();
  }

  Status CheckUnchanged(bool looks_now) const override {
    const std::lock_guard lock(watch_mutex_);
    if (!changed_.ok()) return changed_;
    const auto now = Clock::now();
    if (own().is_local() && Identity::Of(info_.path) != identity_) {
      changed_ = ChangedError(info_.path);
    } else if (looks_now || now >= look_at_) {
      changed_ = Compare();
      constexpr int kCostShare = 20;
      const Clock::duration least =
          own().is_local() ? Clock::duration() : std::chrono::seconds(1);
      const auto end = Clock::now();
      look_at_ = end + std::max(least, kCostShare * (end - now));
    }
    return changed_;
  }

  bool MayHaveMovedSince(
      std::chrono::system_clock::time_point time) const override {
    // File systems' clocks are coarse.
    constexpr auto kSlack = std::chrono::milliseconds(50);
    struct stat info = {};
    if (!own().is_local() || ::stat(info_.path.c_str(), &info) != 0) {
      return false;
    }
    const auto changed = std::chrono::seconds(info.st_ctim.tv_sec) +
                         std::chrono::nanoseconds(info.st_ctim.tv_nsec);
    return changed >= time.time_since_epoch() - kSlack;
  }

 private:
  using Clock = std::chrono::steady_clock;

  const TreeListing& own() const { return listings_[0]; }

  Status Compare() const {
    for (const TreeListing& listing : listings_) {
      HF_RETURN_IF_ERROR(listing.is_local() ? CheckLocalFiles(listing)
                                            : CheckObjects(listing));
    }
    return Status();
  }

  Status ReadStored(size_t number, uint64_t offset,
                    std::span<char> target) const {
    const ListedFile& file = own().files[number];
    const std::string path = own().PathOf(file);
    if (own().is_local()) return ReadLocal(path, file.version, offset, target);
    HF_ASSIGN_OR_RETURN(const std::shared_ptr<PlaceReader> reader,
                        ReaderOf(number, path));
    HF_ASSIGN_OR_RETURN(const std::string bytes,
                        reader->Read(offset, target.size()));
    std::copy(bytes.begin(), bytes.end(), target.begin());
    return Status();
  }

  // Returns the checksums, which are read when a file is first requested. A
  // failure is not kept.
  Result<const StoredSums*> Sums() const {
    const std::lock_guard lock(mutex_);
    if (sums_ == nullptr) {
      HF_ASSIGN_OR_RETURN(sums_, StoredSums::Read(own()));
    }
    return sums_.get();
  }

  // Returns the checksums of the files of a checkpoint without a list, computed
  // when it was verified by the checks of its format. Returns DataLoss for a
  // file that failed these.
  Result<const StoredSums*> VerifiedSums(const std::string& name) const {
    const std::lock_guard lock(verified_mutex_);
    if (verified_ == nullptr) {
      HF_ASSIGN_OR_RETURN(auto sums, StoredSums::Sum(own()));
      HF_ASSIGN_OR_RETURN(const VerifyReport report, Verify(info_.path));
      for (const Damage& damage : report.damages) {
        const bool is_files = own().Find(damage.file) != nullptr;
        damages_.emplace(is_files ? damage.file : "", damage.status);
      }
      verified_ = std::move(sums);
    }
    for (const auto& damaged : {name, std::string()}) {
      const auto found = damages_.find(damaged);
      if (found != damages_.end()) return found->second;
    }
    return verified_.get();
  }

  Result<std::shared_ptr<PlaceReader>> ReaderOf(size_t number,
                                                const std::string& path) const {
    const std::lock_guard lock(mutex_);
    std::shared_ptr<PlaceReader>& reader = readers_[number];
    if (reader == nullptr) {
      HF_ASSIGN_OR_RETURN(reader, PlaceReader::Open(path));
    }
    return reader;
  }

  const CheckpointInfo info_;
  const Identity identity_;
  std::vector<TreeListing> listings_;  // the checkpoint's own first
  mutable std::mutex mutex_;
  mutable std::unique_ptr<const StoredSums> sums_;
  mutable std::map<size_t, std::shared_ptr<PlaceReader>> readers_;
  mutable std::mutex verified_mutex_;
  mutable std::unique_ptr<const StoredSums> verified_;
  mutable std::map<std::string, Status> damages_;  // by file; "": any file
  mutable std::mutex watch_mutex_;
  mutable Status changed_;
  mutable Clock::time_point look_at_;
};

}  // namespace

Result<std::unique_ptr<StoredFiles>> ListStoredFiles(
    const CheckpointInfo& info) {
  auto files = std::make_unique<ListedFiles>(info);
  HF_RETURN_IF_ERROR(files->ListFiles());
  return std::unique_ptr<StoredFiles>(std::move(files));
}

}  // namespace holdfast
