// The "metadata" member of a zarr spec: fills in TensorStore's defaults for a
// new array, and checks an existing array against it.
//
// Thread-safety: pure functions. Units: elements.
// Errors: InvalidArgument for metadata that is contradictory or incomplete,
// FailedPrecondition `Expected "shape" of [5] but received: [4]`.
#pragma once

#include <optional>

#include "formats/zarr/format/json_read.h"
#include "formats/zarr/format/metadata.h"
#include "holdfast/dtype.h"

namespace holdfast::spec {

// A spec's requirements for an array. A null member requires nothing.
struct ArrayConstraints {
  int zarr_format = 2;
  std::optional<DType> dtype;
  zarr::Json metadata;  // null or an object
};

Status CheckConstraints(const ArrayConstraints& constraints);

// Completes the metadata of a new array.
Result<zarr::ArrayMetadata> CompleteMetadata(
    const ArrayConstraints& constraints);

// Checks an existing array. `text` is the stored document, and `stored` is its
// parsed form.
Status CheckStored(const ArrayConstraints& constraints, std::string_view text,
                   const zarr::ArrayMetadata& stored);

}  // namespace holdfast::spec
