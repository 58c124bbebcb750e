// An open torch.save file: its pickle has run, and the place of each storage in
// the file is known, so that tensors can be read in place.
//
// Thread-safety: const methods may run concurrently. Ownership: a document
// shares its source. Units: bytes; offsets in the source.
// Errors: as torch_file.h.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "formats/pickle/legacy_file.h"
#include "formats/pickle/program.h"
#include "formats/pickle/tensor_parts.h"
#include "formats/pickle/torch_archive.h"
#include "formats/zip/byte_source.h"
#include "holdfast/status.h"
#include "holdfast/tools/torch_file.h"

namespace holdfast::pickle {

struct StoragePlace {
  uint64_t offset = 0;
  uint64_t byte_count = 0;
  const ZipEntry* entry = nullptr;  // null in files from before torch 1.6
};

class TorchDocument {
 public:
  static Result<std::shared_ptr<const TorchDocument>> Open(
      std::shared_ptr<const ByteSource> source);

  const Program& program() const {
    return legacy_ ? legacy_->program : *program_;
  }
  uint64_t source_bytes() const { return source_->size(); }
  Result<StoragePlace> FindStorage(const StorageId& id) const;
  // Reads all bytes of a storage, and checks its checksum if there is one.
  Status ReadStorage(const StoragePlace& place, char* target) const;
  // Like ReadStorage, but keeps no bytes. REQUIRES: an entry.
  Status CheckStorage(const StoragePlace& place) const;
  // Returns the value with the elements of all its tensors.
  Result<PickleValue> ValueAt(NodeIndex node) const;

 private:
  explicit TorchDocument(std::shared_ptr<const ByteSource> source)
      : source_(std::move(source)) {}
  Status Read();

  const std::shared_ptr<const ByteSource> source_;
  // A file from before torch 1.6; otherwise an archive and its pickle.
  std::optional<LegacyFile> legacy_;
  std::optional<TorchArchive> archive_;
  std::string text_;  // memory that the program refers to
  std::optional<Program> program_;
};

}  // namespace holdfast::pickle
