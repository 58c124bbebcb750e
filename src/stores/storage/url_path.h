// Recognizes URLs, and splits and normalizes paths and URLs alike.
//
// Thread-safety: pure functions. Errors: none.
#pragma once

#include <string>
#include <string_view>

namespace holdfast {

// Returns true for "scheme://…" with a scheme of letters, digits, '+', '-' and
// '.'.
bool IsUrl(std::string_view path);
// Returns "gs" for "gs://b/x", in lower case; "" if `path` is not a URL.
std::string UrlScheme(std::string_view path);
// Returns the root of a URL: "gs://b" for "gs://b/x". For a model hub, the root
// includes everything that names the repository and its revision:
// "hf://org/model@main", "hf://datasets/org/name@refs/pr/1". "" if `url` is not
// a URL.
std::string UrlRoot(std::string_view url);

// Returns true if `path` begins with '/' or is a URL.
bool IsAbsoluteOrUrl(std::string_view path);

// Returns the absolute path without ".", "..", double and trailing slashes;
// symbolic links are not resolved. A URL keeps its root and its query, and ".."
// never leaves the root.
std::string AbsolutePath(const std::string& path);
// Returns the last part: "x" for "/a/x" and "gs://b/x", "" for "gs://b".
std::string FileNameOf(std::string_view path);
// Returns "/a" for "/a/x", and "gs://b" for both "gs://b/x" and "gs://b".
std::string ParentDirectory(std::string_view path);

}  // namespace holdfast
