#include "virtual/stored_files.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <mutex>
#include <set>
#include <utility>

#include "base/status_macros.h"
#include "holdfast/tools/places.h"
#include "remote/tree_listing.h"
#include "storage/errno_status.h"
#include "storage/unique_fd.h"
#include "storage/url_path.h"

namespace holdfast {
namespace {

namespace fs = std::filesystem;

bool IsBelow(const fs::path& directory, const fs::path& path) {
  const auto [end, unused] = std::mismatch(directory.begin(), directory.end(),
                                           path.begin(), path.end());
  return end == directory.end();
}

// The files that may be read, of those that are listed.
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

class ListedFiles final : public StoredFiles {
 public:
  explicit ListedFiles(const CheckpointInfo& info) : info_(info) {}

  Status List() {
    HF_ASSIGN_OR_RETURN(listing_,
                        ListWholeTree(info_.path, LinkPolicy::kFollow));
    const MayBeRead may_be_read(info_);
    for (size_t i = 0; i < listing_.files.size(); ++i) {
      const ListedFile& file = listing_.files[i];
      if (listing_.is_local() && !may_be_read(listing_.PathOf(file))) continue;
      const std::string name =
          file.name.empty() ? FileNameOf(listing_.place) : file.name;
      HF_RETURN_IF_ERROR(names_.AddFile(name, file.byte_count, i));
    }
    return Status();
  }

  Status ReadInto(std::string_view name, uint64_t offset,
                  std::span<char> target) const override {
    HF_ASSIGN_OR_RETURN(const size_t number, names_.NumberOf(name));
    const ListedFile& file = listing_.files[number];
    const std::string path = listing_.PathOf(file);
    if (listing_.is_local()) {
      return ReadLocal(path, file.version, offset, target);
    }
    HF_ASSIGN_OR_RETURN(const std::shared_ptr<PlaceReader> reader,
                        ReaderOf(number, path));
    HF_ASSIGN_OR_RETURN(const std::string bytes,
                        reader->Read(offset, target.size()));
    std::copy(bytes.begin(), bytes.end(), target.begin());
    return Status();
  }

  uint64_t hash() const override { return ListingHash(listing_); }
  bool IsCurrent() const override {
    if (!listing_.is_local()) return true;
    const Result<TreeListing> now =
        ListWholeTree(info_.path, LinkPolicy::kFollow);
    return now.ok() && ListingHash(*now) == hash();
  }

 private:
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
  TreeListing listing_;
  mutable std::mutex mutex_;
  mutable std::map<size_t, std::shared_ptr<PlaceReader>> readers_;
};

}  // namespace

Result<std::unique_ptr<StoredFiles>> ListStoredFiles(
    const CheckpointInfo& info) {
  auto files = std::make_unique<ListedFiles>(info);
  HF_RETURN_IF_ERROR(files->List());
  return std::unique_ptr<StoredFiles>(std::move(files));
}

}  // namespace holdfast
