#include "stores/cloud/hub/hub_cache.h"

#include <filesystem>

#include "ground/base/text.h"
#include "stores/cloud/environment.h"
#include "stores/storage/url_path.h"

namespace holdfast {

std::string FindHubSnapshot(const std::string& cache_directory,
                            const HubName& name) {
  if (cache_directory.empty()) return "";
  const std::string repository =
      AbsolutePath(cache_directory) + "/" + name.cache_folder();
  std::string commit = name.revision;
  if (!IsHubCommit(commit)) {
    std::string text;
    const std::string file = repository + "/refs/" + name.revision;
    if (ReadSmallFile(file, 64, text) != 0) return "";
    commit = TrimSpaces(text.substr(0, text.find('\n')));
    if (!IsHubCommit(commit)) return "";
  }
  std::error_code error;
  std::string snapshot = repository + "/snapshots/" + commit;
  return std::filesystem::is_directory(snapshot, error) ? snapshot : "";
}

}  // namespace holdfast
