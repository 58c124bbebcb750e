// A torch.save zip archive: its pickle and its storages.
//
// Thread-safety: const methods may run concurrently. Ownership: borrows the
// source. Units: bytes.
// Errors: those of zip_reader.h; DataLoss (no pickle, a storage that is missing
// or of another size), Unimplemented (TorchScript, big-endian).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>

#include "formats/pickle/program.h"
#include "formats/pickle/tensor_parts.h"
#include "formats/zip/zip_reader.h"
#include "holdfast/status.h"

namespace holdfast::pickle {

class TorchArchive {
 public:
  static Result<TorchArchive> Open(const ByteSource& source);
  TorchArchive(TorchArchive&&) = default;
  TorchArchive& operator=(TorchArchive&&) = default;

  const ZipReader& zip() const { return zip_; }
  Result<std::string> ReadPickleText() const;
  // Returns the entry of a storage, which has exactly as many bytes as the id
  // says.
  Result<const ZipEntry*> FindStorage(const StorageId& id) const;

 private:
  explicit TorchArchive(ZipReader zip) : zip_(std::move(zip)) {}

  ZipReader zip_;
  std::string root_;  // with its '/'
  // Its names belong to the entries.
  std::unordered_map<std::string_view, const ZipEntry*> by_name_;
};

// The place of the elements of the only tensor in an archive.
struct TensorPlace {
  DType dtype = DType::kUint8;
  Shape shape;
  Shape strides;        // bytes
  uint64_t offset = 0;  // in the source
};

// Returns DataLoss if the archive's value is not a tensor.
Result<TensorPlace> LocateTensor(const ByteSource& source);

}  // namespace holdfast::pickle
