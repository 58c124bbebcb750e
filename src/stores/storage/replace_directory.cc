#include "stores/storage/replace_directory.h"

#include "ground/base/status_macros.h"
#include "stores/storage/directory_ops.h"
#include "stores/storage/path_parts.h"

namespace holdfast::local {
namespace {

// On file systems without locks, a reader that finds nothing at the name
// between the renames of ReplaceDirectory may give the name back to the old
// directory.
constexpr int kReplaceAttempts = 100;

}  // namespace

Result<std::string> ReplaceDirectory(const std::string& source,
                                     const std::string& target,
                                     const std::string& aside) {
  const std::string from = WithoutTrailingSlashes(source);
  const std::string to = WithoutTrailingSlashes(target);
  const Status exchanged = ExchangeDirectories(from, to);
  if (exchanged.ok()) return from;
  if (exchanged.code() != StatusCode::kUnimplemented) return exchanged;
  Status published;
  for (int attempt = 0; attempt < kReplaceAttempts; ++attempt) {
    HF_RETURN_IF_ERROR(PublishDirectory(to, aside));
    published = PublishDirectory(from, to);
    if (published.ok()) return aside;
    if (published.code() != StatusCode::kAlreadyExists) break;
    HF_ASSIGN_OR_RETURN(const PathKind kind, GetPathKind(aside));
    if (kind != PathKind::kMissing) break;
  }
  // Undoes the renames. Each call does nothing if the names are as before.
  (void)PublishDirectory(to, from);
  (void)PublishDirectory(aside, to);
  return published;
}

}  // namespace holdfast::local
