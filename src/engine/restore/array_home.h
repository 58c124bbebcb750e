// ArrayHome: where the arrays of one place lie, and what is promised of their
// bytes; ReadableArray: one of them. An Item is a home, and so is whatever else
// keeps arrays: a Megatron checkpoint, the key-value store of a spec, the files
// of a foreign format.
//
// Thread-safety: const methods from any thread. Ownership: a ReadableArray
// borrows; the home outlives what reads from it.
// Errors: of CheckStillThere: Unavailable.
#pragma once

#include <optional>
#include <string_view>

#include "engine/restore/array_layout.h"
#include "engine/restore/raw_array.h"
#include "stores/storage/store.h"

namespace holdfast {

// How the bytes of a home are known to be those that were saved.
enum class ByteCheck : uint8_t {
  // Its store compares all that it gives with the list of the save.
  kListed,
  // Nobody listed them: only what a codec keeps in the bytes themselves tells.
  kByCodecAlone,
};

// A zarr array has a layout; any other is raw.
struct ReadableArray {
  std::string_view name;    // of the leaf, for messages
  std::string_view prefix;  // of its keys in the home's store
  const ArrayLayout* layout = nullptr;
  const RawArray* raw = nullptr;
  std::string_view fingerprint = {};  // to be checked; empty: none

  DType dtype() const {
    return raw != nullptr ? raw->dtype : layout->format.metadata.dtype;
  }
  const Shape& shape() const {
    return raw != nullptr ? raw->shape : layout->grid.array_shape;
  }
  bool operator==(const ReadableArray&) const = default;
};

class ArrayHome {
 public:
  virtual ~ArrayHome() = default;
  virtual Store& array_store() const = 0;
  virtual ByteCheck byte_check() const = 0;
  // Absent chunks are errors; otherwise they are the fill value.
  virtual bool refuses_missing_chunks() const = 0;
  // Whether what was read can still be what was opened.
  virtual Status CheckStillThere() const { return Status(); }
  // The words of the home's own world for a chunk that cannot be read; nullopt
  // where it has none. `failure` names the place of the chunk.
  virtual std::optional<Status> Explain(const ReadableArray& /*array*/,
                                        std::string_view /*key*/,
                                        const Status& /*failure*/) const {
    return std::nullopt;
  }
};

}  // namespace holdfast
