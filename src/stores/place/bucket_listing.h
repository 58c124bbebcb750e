// Lists a bucket completely, page by page.
//
// Thread-safety: any thread. Ownership: none. Errors: those of Bucket::List and
// of `fn`; DataLoss when a server repeats the same page forever.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "stores/cloud/bucket.h"

namespace holdfast {

// Calls `fn` for each object whose key begins with `prefix`, in increasing
// order of keys, until `fn` fails. Directory markers ("a/") are included.
Status ForEachObject(Bucket& bucket, const std::string& prefix,
                     const std::function<Status(const ObjectEntry&)>& fn);

// The entries directly below a directory.
struct DirectoryEntries {
  std::vector<std::string> directories;  // names, sorted
  std::vector<ObjectEntry> files;        // full keys, sorted
  bool has_marker = false;               // an object has the directory's name

  bool empty() const {
    return directories.empty() && files.empty() && !has_marker;
  }
};

// Lists the entries directly below `prefix`, which is "" or ends in '/'.
Result<DirectoryEntries> ListEntries(Bucket& bucket, const std::string& prefix);

// Whether a key only marks that a directory exists.
inline bool IsDirectoryMarker(std::string_view key) {
  return key.ends_with('/');
}

// Returns "b" for "a/b".
inline std::string_view NameOfKey(std::string_view key) {
  return key.substr(key.rfind('/') + 1);
}

}  // namespace holdfast
