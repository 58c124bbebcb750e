// Makes and parses batches: many calls of the JSON API in one multipart/mixed
// request.
//
// Thread-safety: pure functions. Units: calls, at most kGcsBatchCallsMax.
// Errors: DataLoss (an answer that is not a batch, or does not answer each call
// exactly once).
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "holdfast/status.h"

namespace holdfast {

inline constexpr size_t kGcsBatchCallsMax = 100;

struct GcsBatchBody {
  std::string content_type;
  std::string body;
};

struct GcsBatchAnswer {
  int status = 0;
  std::string_view body;  // points into the batch's answer
};

// Makes a batch with one DELETE per path, which is like
// "/storage/v1/b/bucket/o/name?…", escaped.
GcsBatchBody MakeDeleteBatch(std::span<const std::string> paths);

// Returns one answer per call, in the order of the calls. In `body` the answers
// may be in any order; their Content-ID identifies them.
Result<std::vector<GcsBatchAnswer>> ParseGcsBatch(std::string_view content_type,
                                                  std::string_view body,
                                                  size_t call_count);

}  // namespace holdfast
