// A conditional write whose answer was lost may have happened; sent again, it
// then fails because of its own success. SettlePut distinguishes that from a
// conflict.
//
// For buckets that cannot store an id in an object's metadata, as S3's and
// Google's do: FaultBucket, where it simulates a client that sends again. It
// compares the existing object with the bytes that were sent. A rival that
// wrote exactly the same bytes is taken for this writer: a caller that needs a
// single winner puts its own id into the content.
// Thread-safety: any thread. Units: bytes.
// Errors: the given FailedPrecondition when the object is missing or has other
// content; Unavailable when that cannot be determined.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "stores/cloud/bucket.h"

namespace holdfast {

// The version of the object, if it holds exactly `pieces`; otherwise `failed`.
Result<std::string> SettlePut(Bucket& bucket, std::string_view key,
                              std::span<const std::string_view> pieces,
                              const Status& failed);

}  // namespace holdfast
