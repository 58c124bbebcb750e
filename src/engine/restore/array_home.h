// ArrayHome: where the arrays of one place are stored, and how their bytes are
// verified; ReadableArray: one such array. Homes are Items and everything else
// that stores arrays: a Megatron checkpoint, the key-value store of a spec, the
// files of a foreign format.
//
// Thread-safety: const methods from any thread. Ownership: a ReadableArray
// borrows; the home outlives its readers.
// Errors: CheckStillThere returns Unavailable.
#pragma once

#include <optional>
#include <string_view>

#include "engine/restore/array_layout.h"
#include "engine/restore/raw_array.h"
#include "stores/storage/store.h"

namespace holdfast {

// How the bytes of a home are verified to be those that were saved.
enum class ByteCheck : uint8_t {
  // Its store compares everything it returns with the save's list of checksums.
  kListed,
  // No list exists: only checksums that a codec stores in the bytes verify
  // them.
  kByCodecAlone,
};

// A zarr array has a layout; any other array is raw.
struct ReadableArray {
  std::string_view name;    // of the leaf, for messages
  std::string_view prefix;  // of its keys in the home's store
  const ArrayLayout* layout = nullptr;
  const RawArray* raw = nullptr;
  std::string_view fingerprint = {};  // to be checked; empty: no check

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
  // Returns whether absent chunks are errors; otherwise they have the fill
  // value.
  virtual bool refuses_missing_chunks() const = 0;
  // Returns Unavailable if what was opened has been replaced, so that the data
  // that was read may belong to something else.
  virtual Status CheckStillThere() const { return Status(); }
  // Returns the home's own message for a chunk that cannot be read; nullopt if
  // it has no such message. `failure` names the chunk's place.
  virtual std::optional<Status> Explain(const ReadableArray& /*array*/,
                                        std::string_view /*key*/,
                                        const Status& /*failure*/) const {
    return std::nullopt;
  }
};

}  // namespace holdfast
