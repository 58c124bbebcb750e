#include "stores/storage/url_path.h"

#include <algorithm>
#include <cctype>
#include <filesystem>

namespace holdfast {
namespace {

namespace fs = std::filesystem;

// Returns where the bucket or host begins; npos if `path` is not a URL.
size_t AuthorityStart(std::string_view path) {
  const size_t colon = path.find("://");
  if (colon == std::string_view::npos || colon == 0) return colon;
  const auto is_of_scheme = [](unsigned char c) {
    return std::isalnum(c) || c == '+' || c == '-' || c == '.';
  };
  const std::string_view scheme = path.substr(0, colon);
  if (!std::isalpha(static_cast<unsigned char>(scheme[0])) ||
      !std::all_of(scheme.begin(), scheme.end(), is_of_scheme)) {
    return std::string_view::npos;
  }
  return colon + 3;
}

struct UrlParts {
  std::string_view root;   // "gs://bucket"
  std::string_view path;   // "/a/b", or ""
  std::string_view query;  // "?…", or ""
};

// Returns the number of names after "hf://" that belong to the repository.
int HubNameCount(std::string_view names) {
  const bool has_kind =
      names.starts_with("datasets/") || names.starts_with("spaces/");
  int count = has_kind ? 3 : 2;
  size_t begin = 0;
  for (int i = 1; i < count && begin != std::string_view::npos; ++i) {
    begin = names.find('/', begin);
    if (begin != std::string_view::npos) ++begin;
  }
  if (begin == std::string_view::npos) return count;
  const std::string_view name =
      names.substr(begin, names.find('/', begin) - begin);
  // Only revisions like refs/pr/1 are written with slashes.
  if (name.ends_with("@refs")) count += 2;
  return count;
}

// Returns where the URL's root ends, at most `end`.
size_t RootEnd(std::string_view url, size_t start, size_t end) {
  const std::string_view inside = url.substr(start, end - start);
  size_t slash = inside.find('/');
  if (UrlScheme(url) == "hf") {
    for (int i = HubNameCount(inside); i > 1 && slash != inside.npos; --i) {
      slash = inside.find('/', slash + 1);
    }
  }
  return slash == inside.npos ? end : start + slash;
}

UrlParts SplitUrl(std::string_view url) {
  const size_t start = AuthorityStart(url);
  const size_t query = std::min(url.find_first_of("?#", start), url.size());
  const size_t root_end = RootEnd(url, start, query);
  return {url.substr(0, root_end), url.substr(root_end, query - root_end),
          url.substr(query)};
}

std::string NormalizedUrl(std::string_view url) {
  const UrlParts parts = SplitUrl(url);
  // lexically_normal() keeps a trailing slash and a leading "//".
  std::string path =
      fs::path("/" + std::string(parts.path)).lexically_normal().string();
  while (!path.empty() && path.back() == '/') path.pop_back();
  const size_t first = std::min(path.find_first_not_of('/'), path.size());
  if (first > 1) path.erase(0, first - 1);
  return std::string(parts.root) + path + std::string(parts.query);
}

}  // namespace

bool IsUrl(std::string_view path) {
  const size_t start = AuthorityStart(path);
  return start != std::string_view::npos && start != 0;
}

std::string UrlScheme(std::string_view path) {
  if (!IsUrl(path)) return "";
  std::string scheme(path.substr(0, path.find("://")));
  for (char& c : scheme) {
    c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return scheme;
}

std::string UrlRoot(std::string_view url) {
  return IsUrl(url) ? std::string(SplitUrl(url).root) : "";
}

bool IsAbsoluteOrUrl(std::string_view path) {
  return path.starts_with('/') || IsUrl(path);
}

std::string AbsolutePath(const std::string& path) {
  if (IsUrl(path)) return NormalizedUrl(path);
  // A "~" that no shell has expanded is kept, so that Place refuses the path.
  if (path == "~" || path.starts_with("~/")) return path;
  std::error_code error;
  const fs::path absolute = fs::absolute(path, error);
  std::string text =
      (error ? fs::path(path) : absolute).lexically_normal().string();
  while (text.size() > 1 && text.back() == '/') text.pop_back();
  return text;
}

std::string FileNameOf(std::string_view path) {
  if (!IsUrl(path)) return fs::path(path).filename().string();
  const std::string_view inside = SplitUrl(path).path;
  return std::string(inside.substr(inside.rfind('/') + 1));
}

std::string ParentDirectory(std::string_view path) {
  if (!IsUrl(path)) return fs::path(path).parent_path().string();
  const UrlParts parts = SplitUrl(path);
  const size_t slash = parts.path.rfind('/');
  if (slash == std::string_view::npos) return std::string(parts.root);
  return std::string(parts.root) + std::string(parts.path.substr(0, slash));
}

}  // namespace holdfast
