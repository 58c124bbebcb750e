// Array: a zarr v2 or v3 array in a Store, written by boxes.
// (checkpoint/restore reads boxes of arrays.)
//
// Thread-safety: any thread may call Write, but writes that touch the same
// chunk must not run concurrently with each other or with reads of it (a partly
// covered chunk is read, changed and written back).
// Ownership: borrows the Store, which must outlive the array; copies share the
// rest.
// Units: boxes in elements, outermost dimension first.
// Errors: AlreadyExists for existing metadata; InvalidArgument for a box
// outside the array or a view of another dtype or shape; those of metadata,
// chunks and the store. A failed Write leaves the array partly written.
#pragma once

#include <memory>
#include <string>

#include "formats/zarr/chunk_codec.h"
#include "ground/base/cancel.h"
#include "ground/base/executor.h"
#include "ground/tensor/box.h"
#include "stores/storage/store.h"

namespace holdfast::zarr {

struct ArrayOptions {
  // The metadata's key, without the prefix. If empty: ".zarray" or "zarr.json".
  std::string metadata_key;
  // If false, chunks and inner chunks that equal the fill value are not stored.
  bool store_data_equal_to_fill_value = true;
  // Content checksums in zstd frames (ChunkCodecOptions).
  bool zstd_checksums = true;
  // For chunks, and for the metadata object.
  WriteOptions write;
  // Makes Create replace existing metadata; it leaves existing chunks as they
  // are.
  bool overwrite = false;
};

class Array {
 public:
  // Writes the metadata. Fails with AlreadyExists if there are metadata
  // already, unless options.overwrite is set. `prefix` is "" or ends in '/':
  // "a.b/".
  static Result<Array> Create(Store* store, std::string prefix,
                              const ArrayMetadata& metadata,
                              const ArrayOptions& options = {});
  // Does no I/O: the metadata is known, or another process writes it.
  static Result<Array> Assume(Store* store, std::string prefix,
                              const ArrayMetadata& metadata,
                              const ArrayOptions& options = {});

  const ArrayMetadata& metadata() const;
  const Shape& shape() const { return metadata().shape; }
  DType dtype() const { return metadata().dtype; }
  const std::string& prefix() const;

  // Copies `source` to the box. Chunks are stored in no particular order.
  // `executor` and `cancel` may be null.
  Status Write(const Box& box, const ConstArrayView& source,
               Executor* executor = nullptr,
               const CancelToken* cancel = nullptr) const;

 private:
  struct State;
  explicit Array(std::shared_ptr<State> state) : state_(std::move(state)) {}

  std::shared_ptr<State> state_;
};

}  // namespace holdfast::zarr
