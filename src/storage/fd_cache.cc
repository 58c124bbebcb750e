#include "storage/fd_cache.h"

#include <utility>

namespace holdfast {

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
  if (by_key_.size() > file_count_max_) EraseLocked(newest_first_.back().key);
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
}

void FdCache::Clear() {
  std::lock_guard lock(mutex_);
  by_key_.clear();
  newest_first_.clear();
}

size_t FdCache::file_count() const {
  std::lock_guard lock(mutex_);
  return by_key_.size();
}

}  // namespace holdfast
