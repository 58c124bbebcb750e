#include "twins/settle_put.h"

namespace holdfast {
namespace {

bool EqualsPieces(std::string_view content,
                  std::span<const std::string_view> pieces) {
  for (const std::string_view piece : pieces) {
    if (!content.starts_with(piece)) return false;
    content.remove_prefix(piece.size());
  }
  return content.empty();
}

}  // namespace

Result<std::string> SettlePut(Bucket& bucket, std::string_view key,
                              std::span<const std::string_view> pieces,
                              const Status& failed) {
  const Result<ObjectEntry> there = bucket.Head(key);
  if (there.status().code() == StatusCode::kNotFound) return failed;
  if (there.ok() && there->byte_count != TotalBytes(pieces)) return failed;
  Status unknown = there.status();
  if (there.ok()) {
    const GetRequest request{.key = std::string(key),
                             .version = there->version};
    const Result<GetResult> content = bucket.Get({&request, 1}).front();
    if (content.ok() && EqualsPieces(content->bytes.view(), pieces)) {
      return content->object.version;
    }
    if (content.ok()) return failed;
    unknown = content.status();
  }
  return UnavailableError("write " + bucket.UrlOf(key) +
                          ": it was sent twice, and whether the first arrived "
                          "cannot be seen: " +
                          unknown.ToString());
}

}  // namespace holdfast
