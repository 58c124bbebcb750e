// The "metadata" member of a zarr spec: what a new array gets where it says
// nothing (TensorStore's defaults), and whether an array that exists is as it
// says.
//
// Thread-safety: pure functions. Units: elements.
// Errors: InvalidArgument for metadata that makes no sense or is not enough,
// FailedPrecondition `Expected "shape" of [5] but received: [4]`.
#pragma once

#include <optional>

#include "holdfast/dtype.h"
#include "zarr/format/json_read.h"
#include "zarr/format/metadata.h"

namespace holdfast::spec {

// What a spec demands of an array; a null member is no demand.
struct ArrayConstraints {
  int zarr_format = 2;
  std::optional<DType> dtype;
  zarr::Json metadata;  // null or an object
};

Status CheckConstraints(const ArrayConstraints& constraints);

// For a new array.
Result<zarr::ArrayMetadata> CompleteMetadata(
    const ArrayConstraints& constraints);

// `text` is what is stored, which `stored` was parsed from.
Status CheckStored(const ArrayConstraints& constraints, std::string_view text,
                   const zarr::ArrayMetadata& stored);

}  // namespace holdfast::spec
