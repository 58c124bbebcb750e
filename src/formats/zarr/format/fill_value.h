// Converts fill_value between JSON and element bytes (doc/zarr.md, one table
// per version).
//
// Elements are DTypeBytes(dtype) bytes as in memory; sub-byte types have zeros
// above the value. Private to this folder.
// Thread-safety: pure functions.
// Errors: FailedPrecondition with TensorStore's message.
#pragma once

#include <string>

#include "formats/zarr/format/json_read.h"

namespace holdfast::zarr {

// `value` is nullptr if the member is missing. The caller handles v2's null.
Result<std::string> ParseFill(DType dtype, const Json* value, int zarr_format);
// REQUIRES: element.size() == DTypeBytes(dtype).
Json FillToJson(DType dtype, const std::string& element, int zarr_format);

}  // namespace holdfast::zarr
