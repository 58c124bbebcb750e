#include "engine/commit/tree_listing.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <limits>
#include <mutex>
#include <optional>
#include <set>
#include <variant>

#include "engine/format/checkpoint_metadata.h"
#include "engine/format/digest_file.h"
#include "engine/format/directory_names.h"
#include "formats/ocdbt/database.h"
#include "ground/base/coding.h"
#include "ground/base/executor.h"
#include "ground/base/status_macros.h"
#include "ground/base/string_coding.h"
#include "ground/base/xxh64.h"
#include "holdfast/steps/steps.h"
#include "stores/place/place.h"
#include "stores/storage/directory_ops.h"
#include "stores/storage/errno_status.h"
#include "stores/storage/nobodys_files.h"
#include "stores/storage/read_only_store.h"
#include "stores/storage/url_path.h"

namespace holdfast {
namespace {

namespace fs = std::filesystem;

// Larger files on a web server are not read as lists of checksums.
constexpr uint64_t kDigestFileBytesMax = uint64_t{1} << 30;

// Returns true for entries that LinkPolicy::kOnlyFiles leaves out.
bool IsNoReadableFile(const std::string& path, LinkPolicy links) {
  struct stat info;
  if (links != LinkPolicy::kOnlyFiles) return false;
  return ::stat(path.c_str(), &info) != 0 || !S_ISREG(info.st_mode);
}

Status AddLocalFile(const std::string& path, std::string name,
                    TreeListing& listing) {
  struct stat info;
  if (::stat(path.c_str(), &info) != 0) return ErrnoStatus(errno, "stat", path);
  if (S_ISREG(info.st_mode)) {
    listing.files.push_back({std::move(name),
                             static_cast<uint64_t>(info.st_size),
                             VersionOfFile(info)});
    return Status();
  }
  return FailedPreconditionError("list " + path +
                                 ": neither a file nor a directory");
}

// Checks a link below `place`, which is the directory `real_place`.
Status CheckLinkStaysInside(const std::string& path, const std::string& place,
                            const fs::path& real_place) {
  std::error_code error;
  const fs::path target = fs::canonical(path, error);
  if (error) return ErrnoStatus(error.value(), "follow link", path);
  const auto [end, unused] = std::mismatch(real_place.begin(), real_place.end(),
                                           target.begin(), target.end());
  const bool is_inside = end == real_place.end();
  if (is_inside && !fs::is_directory(target, error)) return Status();
  return FailedPreconditionError(
      "list " + place + ": symbolic link " + path + " -> " + target.string() +
      (is_inside ? " leads to a directory" : " leads out of it") +
      ": links are not followed there unless follow_links is set");
}

// Returns whether an entry has vanished, and records that. Other processes may
// save and remove steps during the listing.
bool HasVanished(const Status& status, TreeListing& listing) {
  if (status.code() != StatusCode::kNotFound) return false;
  listing.has_vanished = true;
  return true;
}

// Returns whether a directory is part of an unfinished save. Such files are
// never copied, so their links may lead anywhere. `prefix` ends with a slash,
// or is empty.
bool IsInUnfinishedSave(std::string_view prefix) {
  while (!prefix.empty()) {
    const size_t end = prefix.find('/');
    if (IsTemporaryName(prefix.substr(0, end))) return true;
    prefix.remove_prefix(end + 1);
  }
  return false;
}

// Avoids fs::recursive_directory_iterator: in libstdc++ its noexcept functions
// allocate memory, and terminate the process when that fails.
Status AddLocalTree(TreeListing& listing, LinkPolicy links) {
  std::error_code error;
  const std::string& place = listing.place.path();
  const fs::path real_place = fs::canonical(place, error);
  if (error) return ErrnoStatus(error.value(), "list", place);
  const std::string top = place == "/" ? "" : place;
  std::vector<std::string> directories = {""};
  while (!directories.empty()) {
    const std::string prefix = std::move(directories.back());
    directories.pop_back();
    const Result<std::vector<std::string>> names =
        local::ListDirectory(top + "/" + prefix);
    const bool may_be_left_out =
        links == LinkPolicy::kOnlyFiles && !prefix.empty() &&
        names.status().code() == StatusCode::kPermissionDenied;
    if (may_be_left_out) continue;
    if (!prefix.empty() && HasVanished(names.status(), listing)) continue;
    HF_RETURN_IF_ERROR(names.status());
    for (const std::string& name : *names) {
      if (name == kTrashDirectoryName) continue;  // not part of a root
      const std::string path = top + "/" + prefix + name;
      const fs::file_status status = links == LinkPolicy::kFollow
                                         ? fs::status(path, error)
                                         : fs::symlink_status(path, error);
      const bool is_missing = status.type() == fs::file_type::not_found;
      if (is_missing && !fs::is_symlink(fs::symlink_status(path, error))) {
        listing.has_vanished = true;
        continue;
      }
      if (fs::is_directory(status)) {
        directories.push_back(prefix + name + "/");
        continue;
      }
      if (IsNoReadableFile(path, links)) continue;
      if (is_missing) return ErrnoStatus(ENOENT, "follow link", path);
      if (error) return ErrnoStatus(error.value(), "list", place);
      if (fs::is_symlink(status) && links == LinkPolicy::kInside) {
        if (IsInUnfinishedSave(prefix)) continue;
        HF_RETURN_IF_ERROR(CheckLinkStaysInside(path, place, real_place));
      }
      const Status added = AddLocalFile(path, prefix + name, listing);
      if (!HasVanished(added, listing)) HF_RETURN_IF_ERROR(added);
    }
  }
  return Status();
}

Status ListLocal(TreeListing& listing, LinkPolicy links) {
  const std::string& path = listing.place.path();
  struct stat info;
  if (::stat(path.c_str(), &info) != 0) {
    if (errno == ENOENT || errno == ENOTDIR) return Status();
    return ErrnoStatus(errno, "stat", path);
  }
  if (S_ISDIR(info.st_mode)) return AddLocalTree(listing, links);
  listing.is_file = true;
  return AddLocalFile(path, "", listing);
}

// Returns the object with exactly this key; nullopt if it does not exist.
Result<std::optional<ListedFile>> ObjectAt(Bucket& bucket,
                                           const std::string& key,
                                           std::string name) {
  Result<ObjectEntry> object = bucket.Head(key);
  if (object.status().code() == StatusCode::kNotFound) {
    return std::optional<ListedFile>();
  }
  HF_RETURN_IF_ERROR(object.status());
  return std::optional(ListedFile{std::move(name), object->byte_count,
                                  std::move(object->version)});
}

Status ListBelow(const std::string& prefix, TreeListing& listing) {
  ListRequest request;
  request.prefix = prefix;
  do {
    HF_ASSIGN_OR_RETURN(ListPage page, listing.bucket->List(request));
    for (ObjectEntry& object : page.objects) {
      // Skips directory markers, which other tools leave.
      if (object.key.ends_with('/')) continue;
      if (IsNobodysPath(object.key.substr(prefix.size()))) continue;
      listing.files.push_back({object.key.substr(prefix.size()),
                               object.byte_count, std::move(object.version)});
    }
    request.page_token = std::move(page.next_page_token);
  } while (!request.page_token.empty());
  return Status();
}

// Forwards reads, and records the names that are read.
class NameRecorder final : public ReadOnlyStore {
 public:
  explicit NameRecorder(std::shared_ptr<Store> inner)
      : inner_(std::move(inner)) {}

  std::set<std::string> names() const {
    const std::lock_guard lock(mutex_);
    return names_;
  }

  std::string Describe(std::string_view key) const override {
    return inner_->Describe(key);
  }
  Result<ObjectInfo> Stat(std::string_view key) override {
    return Noted(key, inner_->Stat(key));
  }
  Result<Bytes> Read(std::string_view key, ByteRange range) override {
    return Noted(key, inner_->Read(key, range));
  }
  Status ReadInto(std::string_view key, uint64_t offset,
                  std::span<char> target) override {
    const Status read = inner_->ReadInto(key, offset, target);
    if (read.ok()) Note(key);
    return read;
  }
  Status List(
      std::string_view prefix,
      const std::function<Status(std::string_view key, const ObjectInfo& info)>&
          fn) override {
    return inner_->List(prefix, fn);
  }

 private:
  void Note(std::string_view key) {
    const std::lock_guard lock(mutex_);
    names_.emplace(key);
  }
  template <typename T>
  Result<T> Noted(std::string_view key, Result<T> result) {
    if (result.ok()) Note(key);
    return result;
  }

  const std::shared_ptr<Store> inner_;
  mutable std::mutex mutex_;
  std::set<std::string> names_;
};

// Lists the files of a checkpoint on a server that cannot list: finds their
// names in its digests and, for databases, in their trees.
class DigestedTree {
 public:
  explicit DigestedTree(TreeListing& listing)
      : listing_(listing),
        prefix_(listing.key.empty() ? "" : listing.key + "/"),
        executor_(listing.bucket->traits().requests_in_flight) {}

  // Adds all files to the listing; returns false if there are no digests.
  Result<bool> Add() {
    HF_ASSIGN_OR_RETURN(const bool is_there, AddItem(""));
    if (!is_there) return false;
    HF_RETURN_IF_ERROR(AddItems());
    HF_RETURN_IF_ERROR(AddDatabases());
    names_.emplace_back(kCommitMarkerFile);
    HF_RETURN_IF_ERROR(AddFiles());
    return true;
  }

 private:
  // Adds the files that the digests of one directory ("" or "state/") name.
  Result<bool> AddItem(const std::string& item) {
    const std::string name = item + std::string(kDigestFile);
    Result<std::string> text = ReadSmall(name);
    if (text.status().code() == StatusCode::kNotFound) return false;
    HF_RETURN_IF_ERROR(text.status());
    Result<DigestFile> digests = ParseDigestFile(*text);
    if (!digests.ok()) {
      return digests.status().WithContext(
          listing_.bucket->UrlOf(prefix_ + name));
    }
    names_.push_back(name);
    for (const FileDigest& row : digests->files) {
      names_.push_back(item + row.path);
    }
    for (const ValueDigest& row : digests->values) {
      names_.push_back(item + row.path);
    }
    return true;
  }

  // Adds the files of items in their own directories, which have their own
  // digests.
  Status AddItems() {
    const Result<std::string> text =
        ReadSmall(std::string(kCheckpointMetadataFile));
    if (text.status().code() == StatusCode::kNotFound) return Status();
    HF_RETURN_IF_ERROR(text.status());
    HF_ASSIGN_OR_RETURN(const CheckpointMetadata metadata,
                        ParseCheckpointMetadata(*text));
    const auto* items = std::get_if<CompositeHandlers>(&metadata.item_handlers);
    if (items == nullptr) return Status();
    for (const auto& [item, handler] : *items) {
      HF_RETURN_IF_ERROR(CheckKey(item));
      HF_RETURN_IF_ERROR(AddItem(item + "/").status());
    }
    return Status();
  }

  // Adds the files of databases. The digests need not name files that contain
  // only nodes, since nodes have their own checksums.
  Status AddDatabases() {
    std::vector<std::string> directories;
    for (const std::string& name : names_) {
      if (FileNameOf("/" + name) == kManifestFile) {
        directories.push_back(
            name.substr(0, name.size() - kManifestFile.size()));
      }
    }
    NameRecorder recorder(listing_.place.OpenStore());
    for (const std::string& directory : directories) {
      HF_ASSIGN_OR_RETURN(const auto database,
                          ocdbt::Database::Open(&recorder, directory));
      HF_RETURN_IF_ERROR(database->CheckAll());
    }
    for (const std::string& name : recorder.names()) names_.push_back(name);
    return Status();
  }

  Result<std::string> ReadSmall(const std::string& name) {
    HF_ASSIGN_OR_RETURN(const ObjectEntry object,
                        listing_.bucket->Head(prefix_ + name));
    if (object.byte_count > kDigestFileBytesMax) {
      return DataLossError(listing_.bucket->UrlOf(prefix_ + name) + ": " +
                           std::to_string(object.byte_count) + " bytes");
    }
    std::string text(object.byte_count, '\0');
    const GetRequest get{.key = prefix_ + name,
                         .range = {0, object.byte_count},
                         .version = object.version,
                         .target = text};
    if (text.empty()) return text;
    HF_RETURN_IF_ERROR(listing_.bucket->Get({&get, 1})[0].status());
    return text;
  }

  Status AddFiles() {
    std::sort(names_.begin(), names_.end());
    names_.erase(std::unique(names_.begin(), names_.end()), names_.end());
    std::vector<std::optional<ListedFile>> found(names_.size());
    HF_RETURN_IF_ERROR(
        executor_.ParallelFor(names_.size(), [&](size_t i, int) -> Status {
          HF_RETURN_IF_ERROR(CheckKey(names_[i]));
          HF_ASSIGN_OR_RETURN(
              found[i],
              ObjectAt(*listing_.bucket, prefix_ + names_[i], names_[i]));
          return Status();
        }));
    for (std::optional<ListedFile>& file : found) {
      if (file) listing_.files.push_back(*std::move(file));
    }
    return Status();
  }

  TreeListing& listing_;
  const std::string prefix_;
  Executor executor_;
  std::vector<std::string> names_;
};

Status ListBucket(TreeListing& listing) {
  Bucket& bucket = *listing.bucket;
  bool can_list = bucket.traits().can_list;
  if (can_list) {
    const Status listed =
        ListBelow(listing.key.empty() ? "" : listing.key + "/", listing);
    // Credentials that may not list may still read.
    can_list = listed.code() != StatusCode::kPermissionDenied;
    if (can_list) HF_RETURN_IF_ERROR(listed);
  }
  if (can_list) {
    if (!listing.files.empty() || listing.key.empty()) return Status();
  } else {
    // A server may answer for a directory as if it were a file.
    HF_ASSIGN_OR_RETURN(const bool is_tree, DigestedTree(listing).Add());
    if (is_tree) return Status();
  }
  HF_ASSIGN_OR_RETURN(std::optional<ListedFile> file,
                      ObjectAt(bucket, listing.key, ""));
  listing.is_file = file.has_value();
  if (file) listing.files.push_back(*std::move(file));
  if (listing.is_file || can_list) return Status();
  return NotFoundError("list " + listing.place.path() +
                       ": there is neither such a file nor a checkpoint with " +
                       std::string(kDigestFile) +
                       ", which names the files where nothing lists them");
}

// Checks the sizes, which come from a server: impossible sizes would overflow
// in sums.
Status CheckSizes(const TreeListing& listing) {
  constexpr uint64_t kBytesMax = std::numeric_limits<int64_t>::max();
  uint64_t sum = 0;
  for (const ListedFile& file : listing.files) {
    if (file.byte_count > kBytesMax - sum) {
      return DataLossError("list " + listing.place.path() +
                           ": the sizes up to that "
                           "of " +
                           file.name + " (" + std::to_string(file.byte_count) +
                           " bytes) add up to more than any store holds");
    }
    sum += file.byte_count;
  }
  return Status();
}

}  // namespace

std::string TreeListing::PathOf(const ListedFile& file) const {
  const std::string& top = place.path();
  if (file.name.empty()) return top;
  return top.ends_with('/') ? top + file.name : top + "/" + file.name;
}

std::string TreeListing::KeyOf(const ListedFile& file) const {
  if (key.empty()) return file.name;
  return file.name.empty() ? key : key + "/" + file.name;
}

const ListedFile* TreeListing::Find(std::string_view name) const {
  const auto found = std::lower_bound(
      files.begin(), files.end(), name,
      [](const ListedFile& file, std::string_view n) { return file.name < n; });
  return found != files.end() && found->name == name ? &*found : nullptr;
}

uint64_t TreeListing::byte_count() const {
  uint64_t sum = 0;
  for (const ListedFile& file : files) sum += file.byte_count;
  return sum;
}

std::string VersionOfFile(const struct stat& info) {
  return std::to_string(info.st_ino) + "." +
         std::to_string(info.st_mtim.tv_sec) + "." +
         std::to_string(info.st_mtim.tv_nsec);
}

Result<TreeListing> ListWholeTree(const Place& place, LinkPolicy links) {
  TreeListing listing;
  listing.place = place.Absolute();
  if (!place.is_remote()) {
    HF_RETURN_IF_ERROR(ListLocal(listing, links));
  } else {
    HF_ASSIGN_OR_RETURN(BucketPlace found, place.InBucket());
    listing.bucket = std::move(found.bucket);
    listing.key = std::move(found.key);
    HF_RETURN_IF_ERROR(ListBucket(listing));
  }
  std::sort(listing.files.begin(), listing.files.end(),
            [](const auto& a, const auto& b) { return a.name < b.name; });
  HF_RETURN_IF_ERROR(CheckSizes(listing));
  return listing;
}

uint64_t ListingHash(const TreeListing& listing) {
  Xxh64 hash;
  for (const ListedFile& file : listing.files) {
    std::string text;
    PutString(text, file.name);
    PutVarint(text, file.byte_count);
    PutString(text, file.version);
    hash.Update(text);
  }
  return hash.Digest();
}

}  // namespace holdfast
