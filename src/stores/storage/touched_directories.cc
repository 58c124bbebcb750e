#include "stores/storage/touched_directories.h"

#include <algorithm>
#include <utility>

#include "stores/storage/path_parts.h"

namespace holdfast {
void TouchedDirectories::Touch(std::string_view directory) {
  std::lock_guard lock(mutex_);
  TouchLocked(directory);
}

void TouchedDirectories::TouchLocked(std::string_view directory) {
  // All parents of an entry are also entries, so the walk ends at the first
  // entry found.
  while (touched_.find(directory) == touched_.end()) {
    touched_.emplace(directory, false);
    if (directory.empty()) return;
    directory = ParentKey(directory);
  }
}

int TouchedDirectories::MakeInside(std::string_view directory,
                                   const std::function<int()>& make) {
  std::lock_guard lock(mutex_);
  // `make` runs under the lock: no thread may find the new directory before it
  // is noted here.
  const int error = make();
  if (error != 0) return error;
  TouchLocked(directory);
  touched_[std::string(directory)] = true;
  return 0;
}

std::vector<std::string> TouchedDirectories::Take() {
  std::map<std::string, bool, std::less<>> taken;
  {
    std::lock_guard lock(mutex_);
    taken.swap(touched_);
  }
  std::vector<std::string> directories;
  directories.reserve(taken.size());
  for (auto& [directory, made] : taken) directories.push_back(directory);
  // The deepest directories come first: a name is durable only when its
  // directory is durable.
  std::stable_sort(directories.begin(), directories.end(),
                   [](const std::string& a, const std::string& b) {
                     return PartCount(a) > PartCount(b);
                   });
  return directories;
}

void TouchedDirectories::PutBack(std::span<const std::string> directories) {
  std::lock_guard lock(mutex_);
  for (const std::string& directory : directories) {
    TouchLocked(directory);
    // Take has cleared this flag. If it was false before, setting it costs one
    // extra sync.
    touched_[directory] = true;
  }
}

std::vector<std::string> TouchedDirectories::ChainOf(
    std::string_view directory) const {
  std::vector<std::string> chain = {std::string(directory)};
  std::lock_guard lock(mutex_);
  while (!directory.empty()) {
    directory = ParentKey(directory);
    const auto it = touched_.find(directory);
    if (it != touched_.end() && it->second) chain.emplace_back(directory);
  }
  return chain;
}

}  // namespace holdfast
