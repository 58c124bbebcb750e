#include "holdfast/detail/places.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>

#include "ground/base/status_macros.h"
#include "stores/place/bucket_listing.h"
#include "stores/place/bucket_registry.h"
#include "stores/place/directory_ops.h"
#include "stores/storage/nobodys_files.h"
#include "stores/storage/store.h"
#include "stores/storage/url_path.h"

namespace holdfast {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kCopyPieceBytes = 8 << 20;

struct StoreAndKey {
  std::shared_ptr<Store> store;
  std::string key;
};

Result<StoreAndKey> StoreOfFile(const std::string& path) {
  const Place file(AbsolutePath(path));
  if (file.name().empty()) {
    return InvalidArgumentError("file " + path + ": does not name a file");
  }
  return StoreAndKey{file.parent().OpenStore(), file.name()};
}

int64_t NanosecondsOf(fs::file_time_type time) {
  const auto system = std::chrono::file_clock::to_sys(time);
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             system.time_since_epoch())
      .count();
}

Result<PlaceInfo> StatLocalPlace(const std::string& path) {
  const auto kind = GetPathKind(Place(path));  // fails for an invalid path
  if (!kind.ok()) return kind.status();
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  PlaceInfo info;
  if (status.type() == fs::file_type::not_found) return info;
  if (status.type() == fs::file_type::regular) {
    info.kind = PlaceInfo::Kind::kFile;
    info.byte_count = fs::file_size(path, error);
  } else {
    info.kind = status.type() == fs::file_type::directory
                    ? PlaceInfo::Kind::kDirectory
                    : PlaceInfo::Kind::kOther;
  }
  const fs::file_time_type time = fs::last_write_time(path, error);
  if (!error) info.modified_ns = NanosecondsOf(time);
  return info;
}

Result<std::vector<PlaceEntry>> ListLocalPlace(const std::string& path) {
  HF_ASSIGN_OR_RETURN(const auto names, ListDirectory(Place(path)));
  std::vector<PlaceEntry> entries;
  for (const std::string& name : names) {
    HF_ASSIGN_OR_RETURN(auto info, StatLocalPlace(path + "/" + name));
    entries.push_back({name, info});
  }
  return entries;
}

PlaceInfo FileInfo(const ObjectEntry& object) {
  return {PlaceInfo::Kind::kFile, object.byte_count, object.modified_ns};
}

PlaceInfo DirectoryInfo() { return {PlaceInfo::Kind::kDirectory, 0, 0}; }

Result<PlaceInfo> StatObject(const BucketPlace& at) {
  const auto object = at.bucket->Head(at.key);
  if (object.ok()) return FileInfo(*object);
  if (object.status().code() != StatusCode::kNotFound) return object.status();
  return PlaceInfo();
}

// Checks whether any key begins with "key/".
Result<PlaceInfo> StatPrefix(const BucketPlace& at) {
  HF_ASSIGN_OR_RETURN(const auto page,
                      at.bucket->List({at.prefix(), "", "", "", 1}));
  return page.objects.empty() ? PlaceInfo() : DirectoryInfo();
}

// Makes one request, or two if more than a page of names begin with this name.
Result<PlaceInfo> StatRemotePlace(const Place& place) {
  HF_ASSIGN_OR_RETURN(const auto at, place.InBucket());
  if (!at.bucket->traits().can_list) return StatObject(at);
  if (at.key.empty()) {
    HF_RETURN_IF_ERROR(at.bucket->List({"", "", "", "", 1}).status());
    return DirectoryInfo();
  }
  const auto page = at.bucket->List({at.key, "/", "", "", 100});
  if (page.status().code() == StatusCode::kPermissionDenied) {
    return StatObject(at);  // the credentials may allow reads but not listings
  }
  if (!page.ok()) return page.status();
  for (const ObjectEntry& object : page->objects) {
    if (object.key == at.key) return FileInfo(object);
  }
  for (const std::string& prefix : page->prefixes) {
    if (prefix == at.prefix()) return DirectoryInfo();
  }
  if (page->next_page_token.empty()) return PlaceInfo();
  return StatPrefix(at);  // a file of that name would be first in the page
}

Result<std::vector<PlaceEntry>> ListRemotePlace(const Place& place) {
  HF_ASSIGN_OR_RETURN(const auto at, place.InBucket());
  HF_ASSIGN_OR_RETURN(const auto listed, ListEntries(*at.bucket, at.prefix()));
  std::vector<PlaceEntry> entries;
  for (const ObjectEntry& file : listed.files) {
    entries.push_back({std::string(NameOfKey(file.key)), FileInfo(file)});
  }
  for (const std::string& directory : listed.directories) {
    entries.push_back({directory, DirectoryInfo()});
  }
  std::sort(
      entries.begin(), entries.end(),
      [](const PlaceEntry& a, const PlaceEntry& b) { return a.name < b.name; });
  return entries;
}

// Two places in one bucket.
struct TwoPlaces {
  BucketPlace source;
  BucketPlace target;
};
Result<std::optional<TwoPlaces>> InOneBucket(const Place& source,
                                             const Place& target) {
  if (!source.is_remote() || !target.is_remote()) {
    return std::optional<TwoPlaces>();
  }
  HF_ASSIGN_OR_RETURN(auto from, source.InBucket());
  HF_ASSIGN_OR_RETURN(auto to, target.InBucket());
  if (from.bucket != to.bucket) return std::optional<TwoPlaces>();
  return std::optional<TwoPlaces>({std::move(from), std::move(to)});
}

Status RenameObject(const Place& source, const Place& target) {
  HF_ASSIGN_OR_RETURN(const auto both, InOneBucket(source, target));
  if (!both) {
    return UnimplementedError("rename " + source.path() + " to " +
                              target.path() + ": they are not in one bucket");
  }
  Bucket& bucket = *both->source.bucket;
  HF_RETURN_IF_ERROR(bucket.Copy(both->source.key, both->target.key).status());
  return bucket.Delete(both->source.key);
}

// Copies a file through this process, in pieces.
Status StreamFile(const std::string& source, const std::string& target) {
  HF_ASSIGN_OR_RETURN(const auto reader, PlaceReader::Open(source));
  HF_ASSIGN_OR_RETURN(const auto writer, PlaceWriter::Open(target));
  const uint64_t byte_count = reader->byte_count();
  for (uint64_t offset = 0; offset < byte_count; offset += kCopyPieceBytes) {
    HF_ASSIGN_OR_RETURN(
        const auto piece,
        reader->Read(offset, std::min(kCopyPieceBytes, byte_count - offset)));
    HF_RETURN_IF_ERROR(writer->Append(piece));
  }
  return writer->Finish();
}

Status RenameLocalFile(const std::string& source, const std::string& target) {
  std::error_code error;
  fs::rename(source, target, error);
  if (!error) return {};
  const std::string what = "rename " + source + " to " + target + ": ";
  return error == std::errc::no_such_file_or_directory
             ? NotFoundError(what + "no such file")
             : UnavailableError(what + error.message());
}

class StorePlaceReader : public PlaceReader {
 public:
  StorePlaceReader(StoreAndKey at, uint64_t byte_count)
      : at_(std::move(at)), byte_count_(byte_count) {}

  uint64_t byte_count() const override { return byte_count_; }
  Result<std::string> Read(uint64_t offset, uint64_t byte_count) override {
    HF_ASSIGN_OR_RETURN(const auto range,
                        ResolveRange({offset, byte_count}, byte_count_,
                                     at_.store->Describe(at_.key)));
    std::string bytes(range.byte_count, '\0');
    HF_RETURN_IF_ERROR(at_.store->ReadInto(at_.key, offset, bytes));
    return bytes;
  }

 private:
  const StoreAndKey at_;
  const uint64_t byte_count_;
};

class StorePlaceWriter : public PlaceWriter {
 public:
  StorePlaceWriter(StoreAndKey at, std::unique_ptr<ObjectWriter> writer)
      : at_(std::move(at)), writer_(std::move(writer)) {}

  Status Append(std::string_view piece) override {
    Status status = writer_->WriteAt(byte_count_, std::span(&piece, 1));
    byte_count_ += piece.size();
    return status;
  }
  Status Finish() override {
    Status status = writer_->Finish(true);
    // The file is synced first, then its name: see Store::SyncNames.
    return status.ok() ? at_.store->SyncNames() : status;
  }

 private:
  const StoreAndKey at_;  // outlives the writer
  std::unique_ptr<ObjectWriter> writer_;
  uint64_t byte_count_ = 0;
};

}  // namespace

bool IsPlaceUrl(std::string_view path) { return IsUrl(path); }

Result<PlaceInfo> StatPlace(const std::string& path) {
  const Place place(path);
  return place.is_remote() ? StatRemotePlace(place) : StatLocalPlace(path);
}

Result<std::vector<PlaceEntry>> ListPlace(const std::string& path) {
  const Place place(path);
  return place.is_remote() ? ListRemotePlace(place) : ListLocalPlace(path);
}

Result<std::unique_ptr<PlaceReader>> PlaceReader::Open(
    const std::string& path) {
  HF_ASSIGN_OR_RETURN(auto at, StoreOfFile(path));
  HF_ASSIGN_OR_RETURN(const auto object, at.store->Stat(at.key));
  return std::unique_ptr<PlaceReader>(
      std::make_unique<StorePlaceReader>(std::move(at), object.byte_count));
}

Result<std::string> ReadPlace(const std::string& path) {
  HF_ASSIGN_OR_RETURN(const auto at, StoreOfFile(path));
  HF_ASSIGN_OR_RETURN(const auto bytes, at.store->Read(at.key));
  return std::string(bytes.view());
}

Result<std::unique_ptr<PlaceWriter>> PlaceWriter::Open(
    const std::string& path) {
  HF_ASSIGN_OR_RETURN(auto at, StoreOfFile(path));
  HF_ASSIGN_OR_RETURN(auto writer, at.store->Create(at.key));
  return std::unique_ptr<PlaceWriter>(
      std::make_unique<StorePlaceWriter>(std::move(at), std::move(writer)));
}

Status WritePlace(const std::string& path, std::string_view content,
                  bool must_create) {
  HF_ASSIGN_OR_RETURN(const auto at, StoreOfFile(path));
  WriteOptions options;
  options.must_create = must_create;
  Status status = at.store->Write(at.key, content, options);
  return status.ok() ? at.store->SyncNames() : status;
}

Status RemovePlaceFile(const std::string& path) {
  HF_ASSIGN_OR_RETURN(const auto at, StoreOfFile(path));
  HF_RETURN_IF_ERROR(at.store->Stat(at.key).status());
  return at.store->Delete(at.key);
}

Status RemovePlaceTree(const std::string& path) {
  return RemoveTree(Place(AbsolutePath(path)));
}

Status RenamePlaceFile(const std::string& source, const std::string& target) {
  const Place from(source), to(target);
  if (from.can_rename() && to.can_rename()) {
    return RenameLocalFile(source, target);
  }
  return RenameObject(from, to);
}

Status CopyPlaceFile(const std::string& source, const std::string& target) {
  HF_ASSIGN_OR_RETURN(const auto both,
                      InOneBucket(Place(source), Place(target)));
  if (!both) return StreamFile(source, target);
  return both->source.bucket->Copy(both->source.key, both->target.key).status();
}

Status SyncPlaceDirectory(const std::string& path) {
  return SyncDirectory(Place(AbsolutePath(path)));
}

bool IsNobodysName(std::string_view name, bool is_directory) {
  return is_directory ? IsNobodysDirectory(name) : IsNobodysFile(name);
}

Status RenamePlaceDirectory(const std::string& source,
                            const std::string& target) {
  return PublishDirectory(Place(AbsolutePath(source)),
                          Place(AbsolutePath(target)));
}

}  // namespace holdfast
