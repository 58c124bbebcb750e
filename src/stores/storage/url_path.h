// Recognises URLs, and does path arithmetic for both paths and URLs.
//
// Thread-safety: pure functions. Errors: none.
#pragma once

#include <string>
#include <string_view>

namespace holdfast {

// "scheme://…" with a scheme of letters, digits, '+', '-', '.'.
bool IsUrl(std::string_view path);
// "gs" of "gs://b/x", in lower case; "" if `path` is not a URL.
std::string UrlScheme(std::string_view path);
// The root of a URL's path: "gs://b" of "gs://b/x"; for a model hub, everything
// that names the repository and its revision: "hf://org/model@main",
// "hf://datasets/org/name@refs/pr/1". "" if `url` is not a URL.
std::string UrlRoot(std::string_view url);

// Begins with '/', or is a URL.
bool IsAbsoluteOrUrl(std::string_view path);

// Absolute, and without "." and "..", double and trailing slashes; symbolic
// links stay. A URL keeps its root and its query; ".." never leaves the root.
std::string AbsolutePath(const std::string& path);
// The last part: "x" of "/a/x" and of "gs://b/x"; "" of "gs://b".
std::string FileNameOf(std::string_view path);
// "/a" of "/a/x", "gs://b" of "gs://b/x" and of itself.
std::string ParentDirectory(std::string_view path);

}  // namespace holdfast
