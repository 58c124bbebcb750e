// String operations on keys and file-system paths, without any I/O.
//
// Thread-safety: pure functions. Errors: none.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace holdfast {

// Returns "a/b" for the key "a/b/c", and "" for "a".
std::string_view ParentKey(std::string_view key);
// Returns "c" for the key "a/b/c".
std::string_view LastPart(std::string_view key);
// Returns the number of parts: 3 for "a/b/c", 0 for "".
size_t PartCount(std::string_view key);

// Returns "/a" for "/a//", and "/" for "/".
std::string WithoutTrailingSlashes(std::string path);
// Returns the directory that holds a path without trailing slashes: "/a" for
// "/a/b", "/" for "/a" and for "/", "." for "a".
std::string ParentPath(const std::string& path);

}  // namespace holdfast
