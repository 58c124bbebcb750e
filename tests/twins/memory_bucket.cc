#include "twins/memory_bucket.h"

#include <algorithm>
#include <cassert>
#include <charconv>
#include <cstring>
#include <map>
#include <mutex>
#include <utility>

#include "ground/base/status_macros.h"
#include "stores/storage/piece_buffer.h"

namespace holdfast {
namespace {

constexpr size_t kKeyBytesMax = 1024;

// Returns a digest that distinguishes contents, like an ETag.
std::string DigestOf(std::string_view content) {
  uint64_t hash = 0xcbf29ce484222325u ^ content.size();
  const auto mix = [&hash](uint64_t word) {
    hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
    hash ^= hash >> 29;
  };
  while (content.size() >= 8) {
    uint64_t word = 0;
    std::memcpy(&word, content.data(), 8);
    mix(word);
    content.remove_prefix(8);
  }
  for (const char c : content) mix(static_cast<unsigned char>(c));
  char text[16];
  const auto end = std::to_chars(text, text + sizeof(text), hash, 16).ptr;
  return std::string(text, end);
}

}  // namespace

MemoryBucketOptions MemoryBucketOptions::S3Like() { return {}; }

MemoryBucketOptions MemoryBucketOptions::GcsLike() {
  MemoryBucketOptions options;
  options.traits.parts_in_order = true;
  options.counts_versions = true;
  options.part_bytes = 256 << 10;
  return options;
}

// Shared by the bucket and its uploads.
struct MemoryBucket::Contents {
  struct Object {
    Bytes bytes;
    std::string version;
    int64_t modified_ns = 0;
  };

  struct Parts {
    std::string key;
    int64_t begun_ns = 0;
    std::map<uint64_t, Bytes> parts;
    bool has_last = false;
  };

  explicit Contents(MemoryBucketOptions given)
      : options(std::move(given)), time_ns(options.start_time_ns) {}

  std::string UrlOf(std::string_view key) const {
    return "mem://" + options.name + "/" + std::string(key);
  }

  Status CheckBucketKey(std::string_view key) const {
    if (!key.empty() && key.size() <= kKeyBytesMax &&
        key.find('\0') == std::string_view::npos) {
      return {};
    }
    return InvalidArgumentError(UrlOf(key) + ": a key has 1 to 1024 bytes");
  }

  // All functions below REQUIRE that the mutex is held.
  const Object* Find(std::string_view key) const {
    const auto it = objects.find(key);
    return it == objects.end() ? nullptr : &it->second;
  }

  ObjectEntry EntryOf(std::string_view key, const Object& object) const {
    return {std::string(key), object.bytes.size(), object.version,
            object.modified_ns};
  }

  Status CheckCondition(std::string_view key,
                        const Condition& condition) const {
    const Object* object = Find(key);
    if (condition.kind == Condition::Kind::kAbsent && object != nullptr) {
      return FailedPreconditionError("write " + UrlOf(key) +
                                     ": the object exists");
    }
    if (condition.kind == Condition::Kind::kVersion &&
        (object == nullptr || object->version != condition.version)) {
      return FailedPreconditionError(
          "write " + UrlOf(key) + ": the object has " +
          (object == nullptr ? "gone" : "version " + object->version) +
          ", want version " + condition.version);
    }
    return {};
  }

  Result<std::string> Store(std::string_view key, Bytes bytes,
                            const Condition& condition) {
    HF_RETURN_IF_ERROR(CheckCondition(key, condition));
    Object object;
    object.modified_ns = ++time_ns;
    object.version = options.counts_versions ? std::to_string(time_ns)
                                             : DigestOf(bytes.view());
    object.bytes = std::move(bytes);
    std::string version = object.version;
    objects.insert_or_assign(std::string(key), std::move(object));
    return version;
  }

  const MemoryBucketOptions options;
  mutable std::mutex mutex;
  int64_t time_ns;
  uint64_t upload_count = 0;
  std::map<std::string, Object, std::less<>> objects;
  std::map<std::string, Parts> uploads;  // by id
};

class MemoryBucket::PartUpload : public Upload {
 public:
  PartUpload(std::shared_ptr<Contents> contents, std::string id)
      : contents_(std::move(contents)), id_(std::move(id)) {}

  ~PartUpload() override { Abort(); }

  Status Part(uint64_t index, std::span<const std::string_view> pieces,
              bool is_last) override {
    HF_ASSIGN_OR_RETURN(Bytes bytes, JoinPieces(pieces, id_));
    std::lock_guard lock(contents_->mutex);
    HF_ASSIGN_OR_RETURN(Contents::Parts* const upload, Find());
    HF_RETURN_IF_ERROR(CheckPart(*upload, index, bytes.size(), is_last));
    upload->parts.emplace(index, std::move(bytes));
    if (is_last) upload->has_last = true;
    return {};
  }

  Result<std::string> Finish(const Condition& condition) override {
    std::lock_guard lock(contents_->mutex);
    HF_ASSIGN_OR_RETURN(Contents::Parts* const upload, Find());
    PieceBuffer whole;
    uint64_t byte_count = 0;
    for (const auto& [index, bytes] : upload->parts) {
      const std::string_view piece = bytes.view();
      HF_RETURN_IF_ERROR(whole.Add(byte_count, {&piece, 1}, upload->key));
      byte_count += bytes.size();
    }
    if (upload->parts.empty() ||
        upload->parts.rbegin()->first + 1 != upload->parts.size() ||
        (contents_->options.traits.parts_in_order && !upload->has_last)) {
      return InvalidArgumentError("finish upload of " +
                                  contents_->UrlOf(upload->key) +
                                  ": parts are missing");
    }
    HF_ASSIGN_OR_RETURN(Bytes joined, whole.Join(upload->key));
    const bool honours = contents_->options.traits.upload_conditions;
    HF_ASSIGN_OR_RETURN(
        std::string version,
        contents_->Store(upload->key, std::move(joined),
                         honours ? condition : Condition::None()));
    contents_->uploads.erase(id_);
    return version;
  }

  void Abort() override {
    std::lock_guard lock(contents_->mutex);
    contents_->uploads.erase(id_);
  }

 private:
  Result<Contents::Parts*> Find() {
    const auto it = contents_->uploads.find(id_);
    if (it != contents_->uploads.end()) return &it->second;
    return NotFoundError("upload " + id_ + ": finished or aborted");
  }

  Status CheckPart(const Contents::Parts& upload, uint64_t index,
                   uint64_t byte_count, bool is_last) const {
    const MemoryBucketOptions& options = contents_->options;
    const bool in_turn = options.traits.parts_in_order
                             ? index == upload.parts.size()
                             : !upload.parts.contains(index);
    const bool fits = is_last ? byte_count <= options.part_bytes
                              : byte_count == options.part_bytes;
    if (in_turn && fits) return {};
    return InvalidArgumentError(
        "upload of " + contents_->UrlOf(upload.key) + ": part " +
        std::to_string(index) + " of " + std::to_string(byte_count) + " bytes" +
        (in_turn ? " has a wrong size" : " is not in its turn"));
  }

  const std::shared_ptr<Contents> contents_;
  const std::string id_;
};

MemoryBucket::MemoryBucket(MemoryBucketOptions options)
    : contents_(std::make_shared<Contents>(std::move(options))) {}

void MemoryBucket::SetTimeNs(int64_t time_ns) {
  std::lock_guard lock(contents_->mutex);
  contents_->time_ns = time_ns;
}

void MemoryBucket::AdvanceTime(int64_t duration_ns) {
  std::lock_guard lock(contents_->mutex);
  contents_->time_ns += duration_ns;
}

size_t MemoryBucket::object_count() const {
  std::lock_guard lock(contents_->mutex);
  return contents_->objects.size();
}

void MemoryBucket::Damage(std::string_view key, uint64_t offset) {
  std::lock_guard lock(contents_->mutex);
  const Contents::Object* object = contents_->Find(key);
  assert(object != nullptr && offset < object->bytes.size());
  std::string content = object->bytes.ToString();
  content[offset] = static_cast<char>(content[offset] ^ 1);
  (void)contents_->Store(key, Bytes(std::move(content)), Condition::None());
}

const BucketTraits& MemoryBucket::traits() const {
  return contents_->options.traits;
}

std::string MemoryBucket::UrlOf(std::string_view key) const {
  return contents_->UrlOf(key);
}

Result<ObjectEntry> MemoryBucket::Head(std::string_view key) {
  HF_RETURN_IF_ERROR(contents_->CheckBucketKey(key));
  std::lock_guard lock(contents_->mutex);
  const Contents::Object* object = contents_->Find(key);
  if (object != nullptr) return contents_->EntryOf(key, *object);
  return NotFoundError("read " + UrlOf(key) + ": no such object");
}

Result<GetResult> MemoryBucket::GetOne(const GetRequest& request) const {
  HF_RETURN_IF_ERROR(contents_->CheckBucketKey(request.key));
  const std::string url = UrlOf(request.key);
  Bytes bytes;
  GetResult result;
  {
    std::lock_guard lock(contents_->mutex);
    const Contents::Object* object = contents_->Find(request.key);
    if (object == nullptr) {
      return NotFoundError("read " + url + ": no such object");
    }
    result.object = contents_->EntryOf(request.key, *object);
    bytes = object->bytes;
  }
  if (!request.version.empty() && request.version != result.object.version) {
    return DataLossError("read " + url + ": it has version " +
                         result.object.version + ", want " + request.version);
  }
  HF_ASSIGN_OR_RETURN(const ByteRange range,
                      ResolveRange(request.range, bytes.size(), url));
  if (request.target.empty() &&
      range.byte_count > contents_->options.answer_bytes_max) {
    return ResourceExhaustedError("read " + url + ": " +
                                  std::to_string(range.byte_count) +
                                  " bytes in one answer");
  }
  bytes = bytes.Slice(range.offset, range.byte_count);
  if (request.target.empty()) {
    result.bytes = std::move(bytes);
  } else if (request.target.size() == bytes.size()) {
    std::memcpy(request.target.data(), bytes.data(), bytes.size());
  } else {
    return DataLossError("read " + url + ": got " +
                         std::to_string(bytes.size()) + " bytes, want " +
                         std::to_string(request.target.size()));
  }
  return result;
}

std::vector<Result<GetResult>> MemoryBucket::Get(
    std::span<const GetRequest> requests, const CancelToken* cancel) {
  std::vector<Result<GetResult>> results;
  for (const GetRequest& request : requests) {
    const Status status = cancel == nullptr ? Status() : cancel->Check();
    results.push_back(status.ok() ? GetOne(request) : status);
  }
  return results;
}

Result<std::string> MemoryBucket::Put(std::string_view key,
                                      std::span<const std::string_view> pieces,
                                      const Condition& condition) {
  HF_RETURN_IF_ERROR(contents_->CheckBucketKey(key));
  HF_ASSIGN_OR_RETURN(Bytes bytes, JoinPieces(pieces, UrlOf(key)));
  std::lock_guard lock(contents_->mutex);
  return contents_->Store(key, std::move(bytes), condition);
}

Result<std::unique_ptr<Upload>> MemoryBucket::StartUpload(
    std::string_view key) {
  HF_RETURN_IF_ERROR(contents_->CheckBucketKey(key));
  std::lock_guard lock(contents_->mutex);
  std::string id = "upload-" + std::to_string(++contents_->upload_count);
  Contents::Parts& upload = contents_->uploads[id];
  upload.key = std::string(key);
  upload.begun_ns = contents_->time_ns;
  return std::unique_ptr<Upload>(
      std::make_unique<PartUpload>(contents_, std::move(id)));
}

uint64_t MemoryBucket::part_bytes(uint64_t /*index*/) const {
  return contents_->options.part_bytes;
}

Status MemoryBucket::Delete(std::string_view key, const Condition& condition) {
  HF_RETURN_IF_ERROR(contents_->CheckBucketKey(key));
  std::lock_guard lock(contents_->mutex);
  HF_RETURN_IF_ERROR(contents_->CheckCondition(key, condition));
  const auto it = contents_->objects.find(key);
  if (it != contents_->objects.end()) contents_->objects.erase(it);
  return {};
}

Status MemoryBucket::DeleteAll(std::span<const std::string> keys) {
  Status first;
  for (const std::string& key : keys) {
    const Status status = Delete(key);
    if (first.ok()) first = status;
  }
  return first;
}

Result<ListPage> MemoryBucket::List(const ListRequest& request) {
  const std::string& token = request.page_token;
  if (!token.empty() && !token.starts_with("after:")) {
    return InvalidArgumentError("list " + UrlOf(request.prefix) +
                                ": not a page token: " + token);
  }
  std::string after = token.empty() ? request.start_after : token.substr(6);
  const int asked = std::max(1, request.entry_count_max);
  const auto count_max = static_cast<size_t>(
      std::min(asked, contents_->options.page_entry_count_max));

  ListPage page;
  std::lock_guard lock(contents_->mutex);
  auto it = contents_->objects.lower_bound(request.prefix);
  if (after >= request.prefix) it = contents_->objects.upper_bound(after);
  for (; it != contents_->objects.end(); ++it) {
    const std::string& key = it->first;
    if (!key.starts_with(request.prefix)) break;
    const size_t end = request.delimiter.empty()
                           ? std::string::npos
                           : key.find(request.delimiter, request.prefix.size());
    const bool is_folder = end != std::string::npos;
    const std::string folder =
        is_folder ? key.substr(0, end + request.delimiter.size()) : "";
    if (is_folder && !page.prefixes.empty() && page.prefixes.back() == folder) {
      after = key;
      continue;
    }
    if (page.objects.size() + page.prefixes.size() == count_max) {
      page.next_page_token = "after:" + after;
      break;
    }
    after = key;
    if (is_folder) {
      page.prefixes.push_back(folder);
    } else {
      page.objects.push_back(contents_->EntryOf(key, it->second));
    }
  }
  return page;
}

Result<std::string> MemoryBucket::Copy(std::string_view source,
                                       std::string_view target,
                                       const Condition& condition,
                                       const std::string& source_version) {
  HF_RETURN_IF_ERROR(contents_->CheckBucketKey(source));
  HF_RETURN_IF_ERROR(contents_->CheckBucketKey(target));
  std::lock_guard lock(contents_->mutex);
  const Contents::Object* object = contents_->Find(source);
  if (object == nullptr) {
    return NotFoundError("copy " + UrlOf(source) + ": no such object");
  }
  if (!source_version.empty() && source_version != object->version) {
    return DataLossError("copy " + UrlOf(source) + ": it has version " +
                         object->version + ", want " + source_version);
  }
  return contents_->Store(target, object->bytes, condition);
}

Result<std::vector<UnfinishedUpload>> MemoryBucket::ListUploads(
    std::string_view prefix) {
  std::vector<UnfinishedUpload> uploads;
  std::lock_guard lock(contents_->mutex);
  for (const auto& [id, upload] : contents_->uploads) {
    if (!upload.key.starts_with(prefix)) continue;
    uploads.push_back({upload.key, id, upload.begun_ns});
  }
  return uploads;
}

Status MemoryBucket::AbortUpload(const UnfinishedUpload& upload) {
  std::lock_guard lock(contents_->mutex);
  contents_->uploads.erase(upload.upload_id);
  return {};
}

int64_t MemoryBucket::ServerTimeNs() const {
  std::lock_guard lock(contents_->mutex);
  return contents_->time_ns;
}

}  // namespace holdfast
