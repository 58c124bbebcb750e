// A conditional write whose answer was lost may have happened. If it is sent
// again, it then fails because of its own success. SettlePut distinguishes this
// from a conflict.
//
// S3's and Google's buckets store an id in the object's metadata for this
// purpose. SettlePut is for buckets that cannot: FaultBucket uses it to
// simulate a client that sends again. It compares the existing object with the
// bytes that were sent. If another writer wrote exactly the same bytes, they
// count as this writer's: a caller that needs a single winner puts its own id
// into the content.
// Thread-safety: any thread. Units: bytes.
// Errors: the given FailedPrecondition when the object is missing or has other
// content; Unavailable when that cannot be determined.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "stores/cloud/bucket.h"

namespace holdfast {

// Returns the version of the object if it has exactly the bytes of `pieces`,
// otherwise `failed`.
Result<std::string> SettlePut(Bucket& bucket, std::string_view key,
                              std::span<const std::string_view> pieces,
                              const Status& failed);

}  // namespace holdfast
