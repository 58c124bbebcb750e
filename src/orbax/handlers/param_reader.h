// Reads the arrays of a handler: opens them by name, then reads boxes of them
// in one pass.
//
// Thread-safety: ParamArrays is immutable. Ownership: owns what it opens.
// Units: boxes in elements. Errors: those of Deserialize.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/restore/item.h"
#include "ground/tensor/box.h"
#include "holdfast/orbax/type_handlers.h"

namespace holdfast {

class ParamArrays {
 public:
  // Opens the arrays of `infos`.
  // NotFound "Individual parameter subdirectory not found at path: P.", "File
  // not found: P. In many cases, ...".
  static Result<ParamArrays> Open(
      std::span<const ParamInfo> infos,
      const std::optional<std::string>& metadata_key);

  // Opens all arrays of the item, in the order of its leaves.
  static ParamArrays Of(std::unique_ptr<Item> item);

  // The indices below are those of the infos.
  size_t size() const { return params_.size(); }
  const Item& item(size_t i) const { return *params_[i].item; }
  const StoredLeaf& leaf(size_t i) const { return *params_[i].leaf; }
  const Shape& shape(size_t i) const { return leaf(i).info.shape; }

  ArrayMetadata Describe(size_t i, const ParamInfo& info) const;

 private:
  struct Param {
    const Item* item = nullptr;
    const StoredLeaf* leaf = nullptr;
  };
  std::vector<std::unique_ptr<Item>> items_;
  std::vector<Param> params_;
};

// Refuses a parameter without a directory. With OCDBT, also refuses a relative
// directory.
Status CheckParamDirectory(const ParamInfo& info);

// A box of an array. The box may extend beyond the array's end; its elements
// there are zero.
struct BoxRead {
  size_t param = 0;
  Box box;
  std::optional<DType> dtype;  // to which elements are cast
};

// Returns one array per read. REQUIRES: reads of the same parameter are
// adjacent.
Result<std::vector<Array>> ReadBoxes(const ParamArrays& params,
                                     std::span<const BoxRead> reads);

// Returns the bytes of memory that the read needs: those of the chunks that it
// touches.
int64_t ReadFootprintBytes(const ParamArrays& params, const BoxRead& read);

}  // namespace holdfast
