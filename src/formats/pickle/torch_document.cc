#include "formats/pickle/torch_document.h"

#include <map>
#include <utility>

#include "formats/pickle/values.h"
#include "ground/base/bytes.h"
#include "ground/base/status_macros.h"

namespace holdfast::pickle {
namespace {

// The bytes of a document's storages. Each storage is read once.
class StorageReader {
 public:
  explicit StorageReader(const TorchDocument& document) : document_(document) {}

  Result<StorageBytes> Get(const StorageId& id) {
    HF_ASSIGN_OR_RETURN(const StoragePlace place, document_.FindStorage(id));
    auto& buffer = buffers_[{place.offset, place.byte_count}];
    if (!buffer) {
      // At least one byte, since even an empty tensor has an address.
      auto read =
          std::make_shared<Buffer>(Buffer::TryAllocate(place.byte_count + 1));
      if (read->data() == nullptr) {
        return ResourceExhaustedError(
            "torch file: no memory for a storage of " +
            std::to_string(place.byte_count) + " bytes");
      }
      HF_RETURN_IF_ERROR(document_.ReadStorage(place, read->data()));
      buffer = std::move(read);
    }
    return StorageBytes{buffer->data(), buffer};
  }

 private:
  const TorchDocument& document_;
  std::map<std::pair<uint64_t, uint64_t>, std::shared_ptr<const Buffer>>
      buffers_;
};

}  // namespace

Result<std::shared_ptr<const TorchDocument>> TorchDocument::Open(
    std::shared_ptr<const ByteSource> source) {
  std::shared_ptr<TorchDocument> document(new TorchDocument(std::move(source)));
  HF_RETURN_IF_ERROR(document->Read());
  return std::shared_ptr<const TorchDocument>(std::move(document));
}

Status TorchDocument::Read() {
  HF_ASSIGN_OR_RETURN(const bool is_legacy, IsLegacyFile(*source_));
  if (is_legacy) {
    HF_ASSIGN_OR_RETURN(legacy_, OpenLegacyFile(*source_));
    return Status();
  }
  HF_ASSIGN_OR_RETURN(archive_, TorchArchive::Open(*source_));
  HF_ASSIGN_OR_RETURN(text_, archive_->ReadPickleText());
  HF_ASSIGN_OR_RETURN(program_, RunPickle(text_, {.persistent_ids = true,
                                                  .keeps_refused = true}));
  return Status();
}

Result<StoragePlace> TorchDocument::FindStorage(const StorageId& id) const {
  if (legacy_) {
    HF_ASSIGN_OR_RETURN(const ByteRange range, FindLegacyStorage(*legacy_, id));
    return StoragePlace{range.offset, range.byte_count, nullptr};
  }
  HF_ASSIGN_OR_RETURN(const ZipEntry* entry, archive_->FindStorage(id));
  HF_ASSIGN_OR_RETURN(const uint64_t offset,
                      archive_->zip().DataOffset(*entry));
  return StoragePlace{offset, entry->byte_count, entry};
}

Status TorchDocument::ReadStorage(const StoragePlace& place,
                                  char* target) const {
  if (place.entry != nullptr) {
    return archive_->zip().ReadInto(*place.entry, target);
  }
  return source_->Read(place.offset, {target, place.byte_count});
}

Status TorchDocument::CheckStorage(const StoragePlace& place) const {
  return archive_->zip().Check(*place.entry);
}

Result<PickleValue> TorchDocument::ValueAt(NodeIndex node) const {
  StorageReader storages(*this);
  ValueOptions options;
  options.source_bytes = source_->size();
  options.storage = [&](const StorageId& id) { return storages.Get(id); };
  return ValueOf(program(), node, options);
}

}  // namespace holdfast::pickle
