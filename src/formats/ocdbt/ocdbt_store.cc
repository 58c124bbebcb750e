#include "formats/ocdbt/ocdbt_store.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "ground/base/status_macros.h"

namespace holdfast::ocdbt {
namespace {

void CopyInline(const ValueRef& value, uint64_t offset,
                std::span<char> target) {
  if (target.empty()) return;
  std::memcpy(target.data(), value.inline_value.data() + offset, target.size());
}

}  // namespace

std::string OcdbtStore::Describe(std::string_view key) const {
  const std::string manifest =
      base().Describe(database_->directory() + std::string(kManifestName));
  return manifest.substr(0, manifest.size() - kManifestName.size()) +
         "|ocdbt:" + std::string(key);
}

Status OcdbtStore::Refusal(std::string_view key) const {
  return FailedPreconditionError("OCDBT database opened for reading only: " +
                                 Describe(key));
}

Status OcdbtStore::CheckRange(std::string_view key, uint64_t offset,
                              uint64_t byte_count,
                              const ValueRef& value) const {
  if (offset <= value.byte_count && byte_count <= value.byte_count - offset) {
    return Status();
  }
  return RangeError(offset, byte_count, value.byte_count)
      .WithContext("Error reading " + Describe(key));
}

Result<ObjectInfo> OcdbtStore::Stat(std::string_view key) {
  HF_ASSIGN_OR_RETURN(const ValueRef value, database_->Find(key));
  return ObjectInfo{value.byte_count};
}

Result<Bytes> OcdbtStore::Read(std::string_view key, ByteRange range) {
  HF_ASSIGN_OR_RETURN(const ValueRef value, database_->Find(key));
  if (range.byte_count == kToEnd) {
    range.byte_count =
        value.byte_count - std::min(range.offset, value.byte_count);
  }
  HF_RETURN_IF_ERROR(CheckRange(key, range.offset, range.byte_count, value));
  if (value.is_inline) {
    return value.InlineBytes().Slice(range.offset, range.byte_count);
  }
  Result<Bytes> bytes = ReadFileRange(
      base(), value.file, value.offset + range.offset, range.byte_count);
  if (bytes.ok()) return bytes;
  return bytes.status().WithContext("Error reading " + Describe(key));
}

Status OcdbtStore::ReadInto(std::string_view key, uint64_t offset,
                            std::span<char> target) {
  const RangeRead request{key, offset, target};
  return ReadBatch({&request, 1});
}

Status OcdbtStore::ReadBatch(std::span<const RangeRead> requests,
                             const CancelToken* cancel) {
  std::vector<RangeRead> base_requests;
  std::vector<ValueRef> values;  // keep the keys of base_requests alive
  for (const RangeRead& request : requests) {
    HF_ASSIGN_OR_RETURN(ValueRef value, database_->Find(request.key));
    HF_RETURN_IF_ERROR(
        CheckRange(request.key, request.offset, request.target.size(), value));
    if (value.is_inline) {
      CopyInline(value, request.offset, request.target);
      continue;
    }
    base_requests.push_back(
        {value.file, value.offset + request.offset, request.target});
    values.push_back(std::move(value));
  }
  if (base_requests.empty()) return Status();
  return base().ReadBatch(base_requests, cancel);
}

Result<ObjectLocation> OcdbtStore::Locate(std::string_view key) {
  HF_ASSIGN_OR_RETURN(const ValueRef value, database_->Find(key));
  ObjectLocation location;
  location.byte_count = value.byte_count;
  if (value.is_inline) {
    location.key = key;
    location.inline_value = value.InlineBytes();
    return location;
  }
  location.store = &base();
  location.key = value.file;
  location.offset = value.offset;
  return location;
}

Status OcdbtStore::List(
    std::string_view prefix,
    const std::function<Status(std::string_view key, const ObjectInfo& info)>&
        fn) {
  return database_->ForEach(prefix, "", "",
                            [&](std::string_view key, const ValueRef& value) {
                              return fn(key, ObjectInfo{value.byte_count});
                            });
}

}  // namespace holdfast::ocdbt
