// TouchedDirectories: records which directories below a root hold names that
// are not yet durable. It does no I/O; FileStore::SyncNames uses it.
//
// A directory's name is its path relative to the root; the root is "".
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
  // Notes that a file's name in `directory` changed. The directory's parents up
  // to the root count as touched too, because another process may have made
  // them without syncing them.
  void Touch(std::string_view directory);
  // Calls `make`, which makes a directory inside `directory` and returns 0 or
  // an errno. A success is noted before any thread can call Take or ChainOf, so
  // a thread that finds the new directory also finds it noted here.
  int MakeInside(std::string_view directory, const std::function<int()>& make);

  // Returns all touched directories, deepest first, then in byte order, and
  // forgets them.
  std::vector<std::string> Take();
  // Adds directories back that are still not durable after a failed sync.
  void PutBack(std::span<const std::string> directories);
  // Returns the directories to sync, deepest first, to make a name in
  // `directory` durable: `directory` itself and each parent in which this store
  // made a directory.
  std::vector<std::string> ChainOf(std::string_view directory) const;

 private:
  void TouchLocked(std::string_view directory);

  mutable std::mutex mutex_;
  // The value says whether this store made a directory inside.
  std::map<std::string, bool, std::less<>> touched_;
};

}  // namespace holdfast
