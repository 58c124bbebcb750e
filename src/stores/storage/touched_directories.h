// TouchedDirectories: which directories below a root hold names that are not
// yet durable. Pure bookkeeping for FileStore::SyncNames.
//
// A directory is named by its path relative to the root; the root is "".
// Thread-safety: any thread. Call Touch after the name was made, so that a
// sync that starts afterwards covers it.
#pragma once

#include <functional>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace holdfast {

class TouchedDirectories {
 public:
  // A file's name in `directory` changed. Its parents up to the root count as
  // touched too: another process may have made them and not synced them.
  void Touch(std::string_view directory);
  // Calls `make`, which makes a directory inside `directory` and returns 0 or
  // an errno, and notes its success before anybody can Take or ask ChainOf. A
  // thread that finds the new directory therefore also finds it noted.
  int MakeInside(std::string_view directory, const std::function<int()>& make);

  // All touched directories, deepest first, then in byte order; forgets them.
  std::vector<std::string> Take();
  // Still not durable, after a failed sync.
  void PutBack(std::span<const std::string> directories);
  // The directories to sync, deepest first, before a name in `directory` is
  // durable: itself and each parent in which this store made a directory.
  std::vector<std::string> ChainOf(std::string_view directory) const;

 private:
  void TouchLocked(std::string_view directory);

  mutable std::mutex mutex_;
  // Value: this store made a directory in it.
  std::map<std::string, bool, std::less<>> touched_;
};

}  // namespace holdfast
