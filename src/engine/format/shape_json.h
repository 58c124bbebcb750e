// Shapes as JSON arrays: [2, 3].
//
// Thread-safety: pure functions. Units: elements.
// Errors: DataLoss for a negative extent or more than kRankMax extents.
#pragma once

#include <string>

#include "ground/json/scanner.h"
#include "holdfast/status.h"
#include "holdfast/tensor.h"

namespace holdfast {

// Appends the shape as Python's json.dumps writes it.
void AppendJsonShape(std::string& out, const Shape& shape);
Status ReadJsonShape(JsonScanner& in, Shape& shape);

}  // namespace holdfast
