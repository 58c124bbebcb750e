#include "stores/storage/path_parts.h"

#include <algorithm>

namespace holdfast {

std::string_view ParentKey(std::string_view key) {
  const size_t slash = key.rfind('/');
  return slash == std::string_view::npos ? "" : key.substr(0, slash);
}

std::string_view LastPart(std::string_view key) {
  const size_t slash = key.rfind('/');
  return slash == std::string_view::npos ? key : key.substr(slash + 1);
}

size_t PartCount(std::string_view key) {
  if (key.empty()) return 0;
  return 1 + static_cast<size_t>(std::count(key.begin(), key.end(), '/'));
}

std::string WithoutTrailingSlashes(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return path;
}

std::string ParentPath(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : WithoutTrailingSlashes(path.substr(0, slash));
}

}  // namespace holdfast
