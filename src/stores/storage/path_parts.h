// Text operations on keys and file system paths, without any I/O.
//
// Thread-safety: pure functions. Errors: none.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace holdfast {

// "a/b" of the key "a/b/c"; "" of "a".
std::string_view ParentKey(std::string_view key);
// "c" of the key "a/b/c".
std::string_view LastPart(std::string_view key);
// How many parts: 3 of "a/b/c", 0 of "".
size_t PartCount(std::string_view key);

// "/a" of "/a//"; "/" stays.
std::string WithoutTrailingSlashes(std::string path);
// The directory that holds a path without trailing slashes: "/a" of "/a/b", "/"
// of "/a" and of "/", "." of "a".
std::string ParentPath(const std::string& path);

}  // namespace holdfast
