// The "metadata" member of a zarr spec: the defaults of a new array for members
// that it lacks (TensorStore's), and the check of an existing array against it.
//
// Thread-safety: pure functions. Units: elements.
// Errors: InvalidArgument for metadata that makes no sense or is not enough,
// FailedPrecondition `Expected "shape" of [5] but received: [4]`.
#pragma once

#include <optional>

#include "formats/zarr/format/json_read.h"
#include "formats/zarr/format/metadata.h"
#include "holdfast/dtype.h"

namespace holdfast::spec {

// The demands of a spec on an array; a null member demands nothing.
struct ArrayConstraints {
  int zarr_format = 2;
  std::optional<DType> dtype;
  zarr::Json metadata;  // null or an object
};

Status CheckConstraints(const ArrayConstraints& constraints);

// For a new array.
Result<zarr::ArrayMetadata> CompleteMetadata(
    const ArrayConstraints& constraints);

// `text` is the stored document, from which `stored` was parsed.
Status CheckStored(const ArrayConstraints& constraints, std::string_view text,
                   const zarr::ArrayMetadata& stored);

}  // namespace holdfast::spec
