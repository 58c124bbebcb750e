// The entries of an open directory.
//
// Thread-safety: any thread. Ownership: takes the descriptor. Errors: 0 or an
// errno.
#pragma once

#include <dirent.h>

#include <cerrno>
#include <memory>
#include <string_view>

#include "stores/storage/unique_fd.h"

namespace holdfast {

struct CloseDirectory {
  void operator()(DIR* directory) const { ::closedir(directory); }
};

// Calls `fn(descriptor, entry)` for each entry except "." and "..", in no
// particular order, until `fn` returns an errno.
template <typename Fn>
int ForEachEntry(UniqueFd directory, Fn fn) {
  const int descriptor = directory.get();
  std::unique_ptr<DIR, CloseDirectory> stream(::fdopendir(descriptor));
  if (stream == nullptr) return errno;
  directory.Release();  // the stream closes it
  while (true) {
    errno = 0;
    const dirent* item = ::readdir(stream.get());
    if (item == nullptr) return errno;
    const std::string_view name = item->d_name;
    if (name == "." || name == "..") continue;
    const int error = fn(descriptor, *item);
    if (error != 0) return error;
  }
}

}  // namespace holdfast
