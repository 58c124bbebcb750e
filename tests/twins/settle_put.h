// A conditional write whose answer was lost may have happened; sent again it
// fails for its own success. This tells that from a conflict.
//
// For buckets that can put no id into an object's metadata, as S3's and
// Google's do: FaultBucket, where it stands for a client that sends again.
// The existing object is compared with what was sent. A rival who wrote the
// very same bytes looks like ourselves: whoever needs one winner puts an id of
// its own into the content.
// Thread-safety: any thread. Units: bytes.
// Errors: the given FailedPrecondition when other content is there, or none;
// Unavailable when nobody can tell.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "stores/cloud/bucket.h"

namespace holdfast {

// The version of the object, when it holds exactly `pieces`; else `failed`.
Result<std::string> SettlePut(Bucket& bucket, std::string_view key,
                              std::span<const std::string_view> pieces,
                              const Status& failed);

}  // namespace holdfast
