// Which paths are URLs, and path arithmetic that holds for both.
//
// Thread-safety: pure functions. Errors: none.
#pragma once

#include <string>
#include <string_view>

namespace holdfast {

// "scheme://…" with a scheme of letters, digits, '+', '-', '.'.
bool IsUrl(std::string_view path);
// "gs" of "gs://b/x", lower case; "" of what is no URL.
std::string UrlScheme(std::string_view path);
// The root that a URL's path is below: "gs://b" of "gs://b/x"; of a model hub
// all that names the repository and its revision: "hf://org/model@main",
// "hf://datasets/org/name@refs/pr/1". "" of what is no URL.
std::string UrlRoot(std::string_view url);

// Begins with '/', or is a URL.
bool IsAbsoluteOrUrl(std::string_view path);

// Absolute and without "." and "..", double and trailing slashes; symbolic
// links stay. A URL keeps its root and its query; ".." never leaves the
// root.
std::string AbsolutePath(const std::string& path);
// The last part: "x" of "/a/x" and of "gs://b/x"; "" of "gs://b".
std::string FileNameOf(std::string_view path);
// "/a" of "/a/x", "gs://b" of "gs://b/x" and of itself.
std::string ParentDirectory(std::string_view path);

}  // namespace holdfast
