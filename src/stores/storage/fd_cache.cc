#include "stores/storage/fd_cache.h"

#include <sys/resource.h>

#include <atomic>
#include <utility>

namespace holdfast {
namespace {

// The number of entries in all caches. A file may be in several caches.
std::atomic<size_t> kept_count = 0;

// Returns how many files all caches may keep open. The limit is read each time,
// since a program may change it.
size_t KeptMax() {
  struct rlimit limit;
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return 0;
  // A quarter, because the program needs its own descriptors.
  return static_cast<size_t>(limit.rlim_cur / 4);
}

}  // namespace

std::shared_ptr<const OpenFile> FdCache::Find(std::string_view key) {
  std::lock_guard lock(mutex_);
  const auto it = by_key_.find(key);
  if (it == by_key_.end()) return nullptr;
  newest_first_.splice(newest_first_.begin(), newest_first_, it->second);
  return it->second->file;
}

void FdCache::Insert(std::string_view key,
                     std::shared_ptr<const OpenFile> file) {
  if (file_count_max_ == 0) return;
  std::lock_guard lock(mutex_);
  EraseLocked(key);
  newest_first_.push_front({std::string(key), std::move(file)});
  by_key_.emplace(newest_first_.front().key, newest_first_.begin());
  ++kept_count;
  const size_t kept_max = KeptMax();
  while (by_key_.size() > file_count_max_ ||
         (kept_count > kept_max && !by_key_.empty())) {
    EraseLocked(newest_first_.back().key);
  }
}

void FdCache::Erase(std::string_view key) {
  std::lock_guard lock(mutex_);
  EraseLocked(key);
}

void FdCache::EraseLocked(std::string_view key) {
  const auto it = by_key_.find(key);
  if (it == by_key_.end()) return;
  const auto entry = it->second;
  by_key_.erase(it);
  newest_first_.erase(entry);
  --kept_count;
}

void FdCache::Clear() {
  std::lock_guard lock(mutex_);
  kept_count -= by_key_.size();
  by_key_.clear();
  newest_first_.clear();
}

size_t FdCache::file_count() const {
  std::lock_guard lock(mutex_);
  return by_key_.size();
}

}  // namespace holdfast
