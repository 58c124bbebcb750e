// The metadata that a checkpoint records about a value: Orbax's ArrayMetadata,
// ScalarMetadata and StringMetadata. The value itself need not be read.
//
// Thread-safety: values. Units: shapes in elements.
// Errors: none.
#pragma once

#include <optional>
#include <string>
#include <variant>

#include "holdfast/dtype.h"
#include "holdfast/export.h"
#include "holdfast/sharding.h"
#include "holdfast/tensor.h"

namespace holdfast HOLDFAST_EXPORT {

// How an array is stored.
struct StorageMetadata {
  std::optional<Shape> chunk_shape;  // the unit of reading
  std::optional<Shape> write_shape;  // the unit of writing
};

struct ArrayMetadata {
  std::string name;
  std::string directory;
  Shape shape;
  DType dtype = DType::kFloat32;
  std::optional<Sharding> sharding;
  std::optional<StorageMetadata> storage;
};

struct ScalarMetadata {
  std::string name;
  std::string directory;
  DType dtype = DType::kInt64;
  std::optional<StorageMetadata> storage;
};

struct StringMetadata {
  std::string name;
  std::string directory;
};

// For a leaf that the caller's own TypeHandler stores.
struct CustomMetadata {
  std::string name;
  std::string directory;
  std::string typestr;
};

// For None and empty containers; typestr is "None", "Dict", ...
struct EmptyMetadata {
  std::string name;
  std::string typestr;
};

using ValueMetadata =
    std::variant<ArrayMetadata, ScalarMetadata, StringMetadata, CustomMetadata,
                 EmptyMetadata>;

}  // namespace holdfast
