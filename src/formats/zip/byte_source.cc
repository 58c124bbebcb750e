#include "formats/zip/byte_source.h"

#include "ground/base/status_macros.h"

namespace holdfast::pickle {
namespace {

Status CheckInsideSource(const ByteSource& source, uint64_t offset,
                         uint64_t byte_count) {
  if (byte_count <= source.size() && offset <= source.size() - byte_count) {
    return {};
  }
  return OutOfRangeError(std::to_string(byte_count) + " bytes at offset " +
                         std::to_string(offset) + " are past the end of " +
                         std::to_string(source.size()) + " bytes");
}

}  // namespace

Result<std::string> ByteSource::ReadString(uint64_t offset,
                                           uint64_t byte_count) const {
  HF_RETURN_IF_ERROR(CheckInsideSource(*this, offset, byte_count));
  std::string bytes(byte_count, '\0');
  HF_RETURN_IF_ERROR(Read(offset, {bytes.data(), bytes.size()}));
  return bytes;
}

Status MemorySource::Read(uint64_t offset, std::span<char> target) const {
  HF_RETURN_IF_ERROR(CheckInsideSource(*this, offset, target.size()));
  if (!target.empty()) {
    std::memcpy(target.data(), bytes_.data() + offset, target.size());
  }
  return {};
}

Status StoreSource::Read(uint64_t offset, std::span<char> target) const {
  HF_RETURN_IF_ERROR(CheckInsideSource(*this, offset, target.size()));
  return store_.ReadInto(key_, range_.offset + offset, target);
}

}  // namespace holdfast::pickle
