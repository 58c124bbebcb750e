#include "tools/rescue/repaired_files.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "engine/commit/unfinished.h"
#include "engine/format/directory_names.h"
#include "ground/base/status_macros.h"
#include "stores/cloud/bucket_store.h"
#include "stores/place/directory_ops.h"
#include "stores/place/file_set.h"

namespace holdfast {
namespace {

// The key of the checkpoint in the bucket.
constexpr std::string_view kRootKey = "checkpoint";
constexpr std::string_view kRootPrefix = "checkpoint/";
constexpr std::string_view kPlaceRoot = "rescue://checkpoint/";
constexpr std::string_view kVersion = "1";

// Returns the name that the directory has once the save is complete.
std::string FinalNameOf(const std::string& name) {
  if (const auto final_name = FinalName(name)) {
    if (!final_name->empty()) return *final_name;
  }
  if (const auto replaced = NameOfReplaced(name)) return *replaced;
  return name.empty() ? std::string(kRootKey) : name;
}

}  // namespace

RepairedFiles::RepairedFiles(const Place& source, std::shared_ptr<Store> store,
                             std::string file_name, std::string final_name)
    : ReadOnlyBucket("checkpoints that are rescued"),
      source_path_(source.path()),
      file_name_(std::move(file_name)),
      final_name_(std::move(final_name)),
      store_(std::move(store)) {
  traits_.can_write = false;
  traits_.requests_in_flight = std::max(1, store_->requests_in_flight());
}

Result<std::shared_ptr<RepairedFiles>> RepairedFiles::Of(const Place& source) {
  HF_ASSIGN_OR_RETURN(const bool is_directory, LeadsToDirectory(source));
  std::shared_ptr<RepairedFiles> made;
  if (is_directory) {
    const std::string name = source.name();
    const std::string final_name = FinalNameOf(name);
    made.reset(new RepairedFiles(source, source.OpenStore(), "", final_name));
    made->is_edited_ = final_name != name;
  } else {
    const std::string name = source.name();
    HF_ASSIGN_OR_RETURN(std::shared_ptr<Store> store,
                        MakeFileSet({{name, source}}));
    made.reset(new RepairedFiles(source.parent(), std::move(store), name,
                                 source.parent().name()));
  }
  HF_RETURN_IF_ERROR(
      made->store_->List("", [&](std::string_view key, const ObjectInfo& info) {
        made->files_.emplace(
            key, File{std::string(key), info.byte_count, {}, info.byte_count});
        return Status();
      }));
  return made;
}

std::vector<std::string> RepairedFiles::Below(std::string_view prefix) const {
  std::vector<std::string> paths;
  for (auto it = files_.lower_bound(prefix);
       it != files_.end() && it->first.starts_with(prefix); ++it) {
    paths.push_back(it->first);
  }
  return paths;
}

bool RepairedFiles::Hide(const std::string& path) {
  const bool is_there = files_.erase(path) > 0;
  is_edited_ |= is_there;
  return is_there;
}

void RepairedFiles::HideBelow(const std::string& prefix) {
  for (const std::string& path : Below(prefix)) Hide(path);
}

bool RepairedFiles::IsReplaced(const std::string& path) const {
  const auto found = files_.find(path);
  return found != files_.end() && found->second.source.empty();
}

void RepairedFiles::Put(const std::string& path, Bytes bytes) {
  const uint64_t byte_count = bytes.size();
  files_.insert_or_assign(path, File{"", 0, std::move(bytes), byte_count});
  is_edited_ = true;
}

void RepairedFiles::Patch(const std::string& path, uint64_t kept_bytes,
                          Bytes tail, uint64_t byte_count) {
  File& file = files_.find(path)->second;
  file.kept_bytes = std::min(kept_bytes, file.kept_bytes);
  file.tail = std::move(tail);
  file.byte_count = byte_count;
  is_edited_ = true;
}

void RepairedFiles::RenameDirectory(const std::string& from,
                                    const std::string& to) {
  for (const std::string& path : Below(from)) {
    auto node = files_.extract(path);
    node.key() = to + path.substr(from.size());
    files_.insert(std::move(node));
  }
  is_edited_ = true;
}

std::string RepairedFiles::PlaceName() const {
  return std::string(kPlaceRoot) + final_name_;
}

Place RepairedFiles::PlaceOf(const std::shared_ptr<RepairedFiles>& files) {
  const Place root =
      Place::OfBucket(files->PlaceName(), {files, std::string(kRootKey)});
  return root / files->file_name_;
}

std::shared_ptr<Store> RepairedFiles::StoreOf(
    const std::shared_ptr<RepairedFiles>& files, const std::string& directory) {
  std::string key = std::string(kRootPrefix) + directory;
  key.pop_back();
  return std::make_shared<BucketStore>(files, key);
}

std::string RepairedFiles::WithSourcePath(std::string text) const {
  const std::string name = PlaceName();
  for (size_t at = text.find(name); at != std::string::npos;
       at = text.find(name, at + source_path_.size())) {
    text.replace(at, name.size(), source_path_);
  }
  return text;
}

std::string RepairedFiles::UrlOf(std::string_view key) const {
  if (!key.starts_with(kRootPrefix)) return source_path_;
  const File* file = FileOf(key);
  const std::string_view path = file != nullptr && !file->source.empty()
                                    ? std::string_view(file->source)
                                    : key.substr(kRootPrefix.size());
  return source_path_ + "/" + std::string(path);
}

const RepairedFiles::File* RepairedFiles::FileOf(std::string_view key) const {
  if (!key.starts_with(kRootPrefix)) return nullptr;
  const auto found = files_.find(key.substr(kRootPrefix.size()));
  return found == files_.end() ? nullptr : &found->second;
}

Result<ObjectEntry> RepairedFiles::Head(std::string_view key) {
  const File* file = FileOf(key);
  if (file == nullptr) {
    return NotFoundError("File not found: " + UrlOf(key));
  }
  return ObjectEntry{std::string(key), file->byte_count, std::string(kVersion),
                     0};
}

Status RepairedFiles::HoleError(const File& file, std::string_view key,
                                uint64_t offset) const {
  return DataLossError("read " + UrlOf(key) + ": bytes from offset " +
                       std::to_string(offset) + " on are gone (got " +
                       std::to_string(file.kept_bytes + file.tail.size()) +
                       " bytes, want " + std::to_string(file.byte_count) + ")");
}

Status RepairedFiles::Fill(const File& file, std::string_view key,
                           uint64_t offset, std::span<char> target) {
  if (offset < file.kept_bytes) {
    const size_t count =
        std::min<uint64_t>(target.size(), file.kept_bytes - offset);
    HF_RETURN_IF_ERROR(
        store_->ReadInto(file.source, offset, target.first(count)));
    offset += count;
    target = target.subspan(count);
  }
  if (target.empty()) return Status();
  const uint64_t end = file.kept_bytes + file.tail.size();
  if (offset > end || target.size() > end - offset) {
    return HoleError(file, key, offset);
  }
  std::memcpy(target.data(), file.tail.view().data() + offset - file.kept_bytes,
              target.size());
  return Status();
}

Result<GetResult> RepairedFiles::GetOne(const GetRequest& request) {
  GetResult result;
  HF_ASSIGN_OR_RETURN(result.object, Head(request.key));
  const File& file = *FileOf(request.key);
  HF_ASSIGN_OR_RETURN(
      const ByteRange range,
      ResolveRange(request.range, file.byte_count, UrlOf(request.key)));
  if (!request.target.empty() || range.byte_count == 0) {
    HF_RETURN_IF_ERROR(Fill(file, request.key, range.offset, request.target));
    return result;
  }
  // Fail before memory for the hole is allocated.
  if (range.offset + range.byte_count > file.kept_bytes + file.tail.size()) {
    return HoleError(file, request.key, range.offset);
  }
  Buffer bytes = Buffer::TryAllocate(range.byte_count);
  if (bytes.data() == nullptr) {
    return ResourceExhaustedError("read " + UrlOf(request.key) +
                                  ": no memory for " +
                                  std::to_string(range.byte_count) + " bytes");
  }
  HF_RETURN_IF_ERROR(
      Fill(file, request.key, range.offset, {bytes.data(), range.byte_count}));
  result.bytes = Bytes(std::move(bytes), range.byte_count);
  return result;
}

std::vector<Result<GetResult>> RepairedFiles::Get(
    std::span<const GetRequest> requests, const CancelToken* cancel) {
  std::vector<Result<GetResult>> results;
  for (const GetRequest& request : requests) {
    const Status status = cancel != nullptr ? cancel->Check() : Status();
    results.push_back(status.ok() ? GetOne(request) : status);
  }
  return results;
}

Result<ListPage> RepairedFiles::List(const ListRequest& request) {
  return ListNames(request, kRootPrefix, files_,
                   [](const std::string& key, const File& file) {
                     return ObjectEntry{key, file.byte_count,
                                        std::string(kVersion), 0};
                   });
}

}  // namespace holdfast
