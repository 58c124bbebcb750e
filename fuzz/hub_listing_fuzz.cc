// Responses of a model hub, and URLs that name its repositories. Parsed
// responses keep the promises of the parsers' header.
#include "fuzz_util.h"
#include "stores/cloud/hub/hub_listing.h"
#include "stores/cloud/hub/hub_name.h"
#include "stores/storage/store.h"
#include "stores/storage/url_path.h"

namespace holdfast {
namespace {

void CheckTree(std::string_view input) {
  HubFiles files;
  if (!AddTreePage(input, files).ok()) return;
  for (const auto& [path, file] : files) {
    FUZZ_CHECK_OK(CheckKey(path));
    FUZZ_CHECK(file.byte_count <= uint64_t{1} << 63);
  }
  FUZZ_CHECK(files.empty() || !AddTreePage(input, files).ok());
}

void CheckName(std::string_view input) {
  const std::string url = AbsolutePath("hf://" + std::string(input));
  const std::string root = UrlRoot(url);
  FUZZ_CHECK(url.starts_with(root));
  const Result<HubName> name = ParseHubRoot(root);
  if (!name.ok()) return;
  FUZZ_CHECK_OK(CheckKey(name->id));
  FUZZ_CHECK_OK(CheckKey(name->revision));
  FUZZ_CHECK_OK(CheckKey(name->cache_folder()));
  FUZZ_CHECK(name->cache_folder().find('/') == std::string::npos);
}

void CheckAll(std::string_view input) {
  CheckTree(input);
  const Result<std::string> commit = CommitOfRevision(input);
  FUZZ_CHECK(!commit.ok() || IsHubCommit(*commit));
  FUZZ_CHECK(NextOfLink(input).size() <= input.size());
  CheckName(input);
}

}  // namespace
}  // namespace holdfast

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  holdfast::CheckAll(holdfast::FuzzText(data, size));
  return 0;
}
