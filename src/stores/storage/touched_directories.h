// TouchedDirectories: records which directories below a root hold names that
// are not yet durable. It does no I/O; FileStore::SyncNames uses it.
//
// A directory is named by its path relative to the root; the root is "".
// Thread-safety: any thread. Call Touch after the name was made, so that a sync
// that starts afterwards covers it.
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
  // Notes that a file's name in `directory` changed. Its parents up to the root
  // count as touched too: another process may have made them and not synced
  // them.
  void Touch(std::string_view directory);
  // Calls `make`, which makes a directory inside `directory` and returns 0 or
  // an errno, and notes its success before any thread can call Take or ChainOf.
  // A thread that finds the new directory therefore also finds it noted.
  int MakeInside(std::string_view directory, const std::function<int()>& make);

  // Returns all touched directories, deepest first, then in byte order, and
  // forgets them.
  std::vector<std::string> Take();
  // Notes directories again that are still not durable after a failed sync.
  void PutBack(std::span<const std::string> directories);
  // The directories to sync, deepest first, to make a name in `directory`
  // durable: itself and each parent in which this store made a directory.
  std::vector<std::string> ChainOf(std::string_view directory) const;

 private:
  void TouchLocked(std::string_view directory);

  mutable std::mutex mutex_;
  // Value: whether this store made a directory inside.
  std::map<std::string, bool, std::less<>> touched_;
};

}  // namespace holdfast
