#include "holdfast/tools/torch_file.h"

#include <map>
#include <memory>
#include <string>

#include "base/bytes.h"
#include "base/status_macros.h"
#include "pickle/legacy_file.h"
#include "pickle/program.h"
#include "pickle/torch_archive.h"
#include "pickle/values.h"

namespace holdfast {
namespace {

// The storages of an archive. Each is read once.
class ArchiveStorages {
 public:
  explicit ArchiveStorages(const pickle::TorchArchive& archive)
      : archive_(archive) {}

  Result<pickle::StorageBytes> Get(const pickle::StorageId& id) {
    HF_ASSIGN_OR_RETURN(const pickle::ZipEntry* entry,
                        archive_.FindStorage(id));
    auto& buffer = buffers_[entry];
    if (!buffer) {
      // At least one byte, as an empty tensor has an address, too.
      auto read =
          std::make_shared<Buffer>(Buffer::TryAllocate(entry->byte_count + 1));
      if (read->data() == nullptr) {
        return ResourceExhaustedError(
            "torch file: no memory for a storage "
            "of " +
            std::to_string(entry->byte_count) + " bytes");
      }
      HF_RETURN_IF_ERROR(archive_.zip().ReadInto(*entry, read->data()));
      buffer = std::move(read);
    }
    return pickle::StorageBytes{buffer->data(), buffer};
  }

 private:
  const pickle::TorchArchive& archive_;
  std::map<const pickle::ZipEntry*, std::shared_ptr<const Buffer>> buffers_;
};

}  // namespace

Result<PickleValue> ReadPickle(std::string_view bytes) {
  HF_ASSIGN_OR_RETURN(const pickle::Program program, pickle::RunPickle(bytes));
  if (program.byte_count != bytes.size()) {
    return DataLossError(
        "pickle: " + std::to_string(bytes.size() - program.byte_count) +
        " bytes follow its STOP");
  }
  pickle::ValueOptions options;
  options.source_bytes = bytes.size();
  return pickle::ValueOf(program, program.root, options);
}

Result<PickleValue> ReadTorchFile(std::string_view bytes) {
  if (pickle::IsLegacyFile(bytes)) return pickle::ReadLegacyFile(bytes);
  const pickle::MemorySource source(bytes);
  HF_ASSIGN_OR_RETURN(const pickle::TorchArchive archive,
                      pickle::TorchArchive::Open(source));
  HF_ASSIGN_OR_RETURN(const std::string text, archive.ReadPickleText());
  HF_ASSIGN_OR_RETURN(const pickle::Program program,
                      pickle::RunPickle(text, {.persistent_ids = true}));
  ArchiveStorages storages(archive);
  pickle::ValueOptions options;
  options.source_bytes = bytes.size();
  options.storage = [&](const pickle::StorageId& id) {
    return storages.Get(id);
  };
  return pickle::ValueOf(program, program.root, options);
}

}  // namespace holdfast
