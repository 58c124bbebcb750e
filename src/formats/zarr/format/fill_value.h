// fill_value between JSON and element bytes (doc/zarr.md, one table a version).
//
// Elements are DTypeBytes(dtype) bytes as in memory (sub-byte types with zeros
// above the value). Private to this folder.
// Thread-safety: pure functions.
// Errors: FailedPrecondition with TensorStore's text.
#pragma once

#include <string>

#include "formats/zarr/format/json_read.h"

namespace holdfast::zarr {

// `value` is null when the member is missing. v2's null is the caller's.
Result<std::string> ParseFill(DType dtype, const Json* value, int zarr_format);
// REQUIRES: element.size() == DTypeBytes(dtype).
Json FillToJson(DType dtype, const std::string& element, int zarr_format);

}  // namespace holdfast::zarr
