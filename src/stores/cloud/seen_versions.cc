#include "stores/cloud/seen_versions.h"

#include <new>
#include <utility>

namespace holdfast {

SeenVersions::Seen SeenVersions::Look(std::string_view key) const {
  std::lock_guard lock(mutex_);
  const auto it = entries_.find(key);
  return it == entries_.end() ? Seen() : it->second.seen;
}

void SeenVersions::Found(std::string_view key, uint64_t epoch,
                         std::string_view version, uint64_t byte_count) {
  std::lock_guard lock(mutex_);
  auto it = entries_.find(key);
  if (it == entries_.end()) it = entries_.try_emplace(std::string(key)).first;
  Entry& entry = it->second;
  // The first version wins, because a store must not mix two versions. A
  // version found before our own write is out of date.
  if (entry.seen.is_known || entry.seen.epoch != epoch) return;
  if (entry.writes_under_way > 0) return;
  entry.seen = {true, std::string(version), byte_count, epoch};
}

void SeenVersions::WriteBegins(std::string_view key) {
  std::lock_guard lock(mutex_);
  Entry& entry = entries_[std::string(key)];
  entry.seen = {.epoch = ++last_epoch_};
  if (entry.writes_under_way++ > 0) entry.overlapped = true;
}

SeenVersions::Entry& SeenVersions::EndWrite(std::string_view key) {
  Entry& entry = entries_.find(key)->second;
  entry.seen = {.epoch = ++last_epoch_};
  --entry.writes_under_way;
  return entry;
}

void SeenVersions::WriteEnded(std::string_view key, std::string_view version,
                              uint64_t byte_count) {
  std::lock_guard lock(mutex_);
  Entry& entry = EndWrite(key);
  if (entry.writes_under_way > 0) return;
  const bool overlapped = std::exchange(entry.overlapped, false);
  // Two writes of the key overlapped, so it is unknown which one the server
  // applied last.
  if (overlapped) return;
  try {
    entry.seen = {true, std::string(version), byte_count, entry.seen.epoch};
  } catch (const std::bad_alloc&) {
    // The version is not recorded, so the next read asks the server.
  }
}

void SeenVersions::WriteEnded(std::string_view key) {
  std::lock_guard lock(mutex_);
  Entry& entry = EndWrite(key);
  if (entry.writes_under_way == 0) entry.overlapped = false;
}

}  // namespace holdfast
