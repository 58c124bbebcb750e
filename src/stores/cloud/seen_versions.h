// SeenVersions: records which version of each key a store saw first, so that
// all its reads of an object return one version.
//
// A write by the store itself records the new version. While a write is in
// progress, or after two writes have overlapped, the version is unknown until a
// read finds it. A key's epoch changes with each of this store's own writes. A
// read that finds another version than the recorded one checks whether the
// key's epoch has changed in the meantime.
// Thread-safety: any thread. Ownership: owns its strings. Errors: none.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <string_view>

namespace holdfast {

class SeenVersions {
 public:
  struct Seen {
    bool is_known = false;
    std::string version;  // "" if the server reports no versions
    uint64_t byte_count = 0;
    uint64_t epoch = 0;
  };

  Seen Look(std::string_view key) const;
  // Called when a read, stat or listing that began at `epoch` has found this
  // version. Records the version if none is known and if this store did not
  // write the key in the meantime.
  void Found(std::string_view key, uint64_t epoch, std::string_view version,
             uint64_t byte_count);
  // Called before and after each write and delete by this store.
  void WriteBegins(std::string_view key);
  void WriteEnded(std::string_view key, std::string_view version,
                  uint64_t byte_count);
  // Called after a failed write, whose effect is unknown, and after a delete.
  void WriteEnded(std::string_view key);

 private:
  struct Entry {
    Seen seen;
    int writes_under_way = 0;
    bool overlapped = false;
  };

  Entry& EndWrite(std::string_view key);  // REQUIRES: mutex_ held

  mutable std::mutex mutex_;
  uint64_t last_epoch_ = 0;
  std::map<std::string, Entry, std::less<>> entries_;
};

}  // namespace holdfast
