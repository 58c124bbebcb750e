#include "stores/place/bucket_listing.h"

#include <utility>

#include "ground/base/status_macros.h"

namespace holdfast {
namespace {

Status ForEachPage(Bucket& bucket, ListRequest request,
                   const std::function<Status(ListPage& page)>& fn) {
  while (true) {
    HF_ASSIGN_OR_RETURN(ListPage page, bucket.List(request));
    HF_RETURN_IF_ERROR(fn(page));
    if (page.next_page_token.empty()) return {};
    // A repeated token would cause an endless loop.
    if (page.next_page_token == request.page_token) {
      return DataLossError("list " + bucket.UrlOf(request.prefix) +
                           ": the server gives the same page again");
    }
    request.page_token = std::move(page.next_page_token);
  }
}

}  // namespace

Status ForEachObject(Bucket& bucket, const std::string& prefix,
                     const std::function<Status(const ObjectEntry&)>& fn) {
  return ForEachPage(bucket, {.prefix = prefix}, [&](ListPage& page) {
    for (const ObjectEntry& object : page.objects) {
      HF_RETURN_IF_ERROR(fn(object));
    }
    return Status();
  });
}

Result<DirectoryEntries> ListEntries(Bucket& bucket,
                                     const std::string& prefix) {
  DirectoryEntries entries;
  const auto add_page = [&](ListPage& page) {
    for (ObjectEntry& object : page.objects) {
      if (object.key == prefix) {
        entries.has_marker = true;
      } else if (object.key.size() > prefix.size() &&
                 !IsDirectoryMarker(object.key)) {
        entries.files.push_back(std::move(object));
      }
    }
    for (const std::string& below : page.prefixes) {
      if (below.size() < prefix.size() + 2) continue;  // "//" is not a name
      entries.directories.push_back(
          below.substr(prefix.size(), below.size() - prefix.size() - 1));
    }
    return Status();
  };
  HF_RETURN_IF_ERROR(
      ForEachPage(bucket, {.prefix = prefix, .delimiter = "/"}, add_page));
  return entries;
}

}  // namespace holdfast
