// FdCache: a bounded set of open files, by key. It evicts the least recently
// used file, and lets thousands of ranged reads of one data file open the file
// once.
//
// All caches of the process together hold at most a quarter of the descriptors
// that the process may have open (RLIMIT_NOFILE), however many stores exist.
//
// The cache does not check whether an entry is still the file of that name;
// FileStore checks this through the descriptor.
// Thread-safety: any thread. Ownership: entries are shared; an evicted file
// stays open until its last reader releases it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>

#include "stores/storage/unique_fd.h"

namespace holdfast {

struct OpenFile {
  UniqueFd fd;
  // Inode change time when the file was opened; a rename or unlink changes it.
  int64_t changed_seconds = 0;
  int64_t changed_nanoseconds = 0;
};

class FdCache {
 public:
  // With 0, the cache keeps nothing open.
  explicit FdCache(size_t file_count_max) : file_count_max_(file_count_max) {}
  ~FdCache() { Clear(); }
  FdCache(const FdCache&) = delete;
  FdCache& operator=(const FdCache&) = delete;

  // Returns the open file, or null if the cache does not have it.
  std::shared_ptr<const OpenFile> Find(std::string_view key);
  // Adds the file, replacing an entry with the same key. The file is not kept
  // if other caches already hold the maximum number of descriptors.
  void Insert(std::string_view key, std::shared_ptr<const OpenFile> file);
  void Erase(std::string_view key);
  void Clear();
  size_t file_count() const;

 private:
  struct Entry {
    std::string key;
    std::shared_ptr<const OpenFile> file;
  };

  void EraseLocked(std::string_view key);

  const size_t file_count_max_;
  mutable std::mutex mutex_;
  std::list<Entry> newest_first_;
  // The keys point into the entries.
  std::unordered_map<std::string_view, std::list<Entry>::iterator> by_key_;
};

}  // namespace holdfast
