// Known formats of checkpoints, told by the first bytes of a file or the names
// in a directory: one table of signs, of words for what bears the sign, and of
// what to do with it. The formats that holdfast reads are rows of it, too; the
// text that lists them is made from it.
//
// Thread-safety: immutable; functions of the file system.
// Ownership: results own their texts. Units: bytes.
// Errors: none where not said; what cannot be looked at bears no sign.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "stores/place/place.h"
#include "stores/storage/store.h"

namespace holdfast {

// A sign of a file lies in this much of it.
inline constexpr uint64_t kFileStartBytes = 512;

struct FileStart {
  std::string name;         // without directories
  std::string bytes;        // the first kFileStartBytes of it
  uint64_t byte_count = 0;  // of the file
};

// The names in a directory; those further down when a sign asks for them.
class DirectorySight {
 public:
  DirectorySight(const Place& place, std::vector<std::string> sorted_names)
      : place_(place), names_(std::move(sorted_names)) {}

  const Place& place() const { return place_; }
  const std::vector<std::string>& names() const { return names_; }
  bool Has(std::string_view name) const;
  // The names that `is` holds for, the first few of them in words; "" without.
  std::string Those(const std::function<bool(std::string_view name)>& is) const;

 private:
  const Place& place_;
  const std::vector<std::string> names_;
};

struct KnownFormat {
  using Signs = std::array<std::string_view, 12>;  // "" behind the last

  // For a format that is read: as CheckpointInfo::format.
  std::string_view id;
  // "it is …"; '%' stands for the names that the sign has found.
  std::string_view words;
  // The advice what to do with it; "" for a format that is read.
  std::string_view way_on;
  // The sign leaves no doubt, whatever the file's name says.
  bool is_sure = false;
  // Signs of a file, any of: its first bytes, its name (which may have a '*' at
  // either end), what a function finds.
  Signs starts = {};
  Signs file_names = {};
  bool (*is_file)(const FileStart& start) = nullptr;
  // Signs of a directory: names of entries, where `lacks` is not one; or those
  // that a function finds, "" without.
  Signs entries = {};
  std::string_view lacks = {};
  std::string (*names_in)(const DirectorySight& sight) = nullptr;

  bool is_read() const { return way_on.empty(); }
  bool has_file_sign() const {
    return !starts[0].empty() || !file_names[0].empty() || is_file != nullptr;
  }
  bool has_directory_sign() const {
    return !entries[0].empty() || names_in != nullptr;
  }
  bool IsFile(const FileStart& start) const;
  // The names that are the sign, in words; "" without.
  std::string NamesIn(const DirectorySight& sight) const;
};

// The first row that a file bears the sign of counts, and so in a directory.
std::span<const KnownFormat> KnownFormats();

// The start of an object, and the name that it has for those who ask. Errors:
// those of the store.
Result<FileStart> StartOfFile(Store& store, std::string_view key,
                              std::string_view name);
// Null: no sign.
const KnownFormat* FormatOfStart(const FileStart& start);

// "Orbax's checkpoints, …, and …".
std::string FormatsThatAreRead();

// Says what a file, a directory or a link is, and what to do with it: "it is …;
// …".
std::string WhatFileIs(const Place& file);
std::string WhatDirectoryIs(const Place& directory);
// The row's text where a directory with these names bears its sign; else "".
std::string TextOfSign(std::string_view id, const Place& directory,
                       const std::vector<std::string>& sorted_names);
// FailedPrecondition for a directory with these names that has the databases of
// processes and none that was made of them. Each holds some chunks of the
// arrays: to read one would be to take the others for fill values.
Status CheckPartsAreMerged(const Place& directory,
                           const std::vector<std::string>& sorted_names);

// The status, with what the file is where that is another thing than the
// reader took it for: a row's id, or "" for any format that is read. REQUIRES:
// not ok.
Status WithWhatFileIs(const Status& status, Store& store, std::string_view key,
                      std::string_view read_as);

}  // namespace holdfast
