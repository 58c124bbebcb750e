// Checkpoint formats that holdfast recognizes by the first bytes of a file or
// by the names in a directory. One table holds the signs of each format, a
// description of what they mark, and advice on what to do with it. The formats
// that holdfast reads are in the table too, and the message that lists them is
// made from it.
//
// Thread-safety: immutable; functions of the file system.
// Ownership: results own their strings. Units: bytes.
// Errors: none unless stated; an entry that cannot be read shows no sign.
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

// The signs of a file are searched for in this many bytes at its start.
inline constexpr uint64_t kFileStartBytes = 512;

struct FileStart {
  std::string name;         // without directories
  std::string bytes;        // the first kFileStartBytes of it
  uint64_t byte_count = 0;  // of the file
};

// The names in a directory. Names further down are looked up only when a sign
// needs them.
class DirectorySight {
 public:
  DirectorySight(const Place& place, std::vector<std::string> sorted_names)
      : place_(place), names_(std::move(sorted_names)) {}

  const Place& place() const { return place_; }
  const std::vector<std::string>& names() const { return names_; }
  bool Has(std::string_view name) const;
  // Returns the first few names for which `is` is true, as a phrase; "" if it
  // is true for no name.
  std::string Those(const std::function<bool(std::string_view name)>& is) const;

 private:
  const Place& place_;
  const std::vector<std::string> names_;
};

struct KnownFormat {
  using Signs = std::array<std::string_view, 12>;  // "" after the last

  // For a format that holdfast reads: its CheckpointInfo::format.
  std::string_view id;
  // Follows "it is". The names that the sign has found replace '%'.
  std::string_view words;
  // Advises what to do with the file or directory; "" for a format that is
  // read.
  std::string_view way_on;
  // The sign is conclusive, whatever the file's name says.
  bool is_sure = false;
  // Signs of a file, any of which is enough: its first bytes, its name (with an
  // optional '*' at either end), or a function's verdict.
  Signs starts = {};
  Signs file_names = {};
  bool (*is_file)(const FileStart& start) = nullptr;
  // Signs of a directory: an entry with one of these names, unless there is
  // also an entry named `lacks`; or the names that a function finds ("" if it
  // finds none).
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
  // Returns the names that are the sign, as a phrase; "" if the directory does
  // not show the sign.
  std::string NamesIn(const DirectorySight& sight) const;
};

// Returns the table. The first row whose sign a file or directory shows counts.
std::span<const KnownFormat> KnownFormats();

// Reads the start of an object; `name` is the object's name for messages.
// Errors: those of the store.
Result<FileStart> StartOfFile(Store& store, std::string_view key,
                              std::string_view name);
// Returns null if no row matches.
const KnownFormat* FormatOfStart(const FileStart& start);

// Returns a list in words: "Orbax's checkpoints, …, and …".
std::string FormatsThatAreRead();

// Returns what a file, a directory or a link is, and what to do with it: "it is
// …; …".
std::string WhatFileIs(const Place& file);
std::string WhatDirectoryIs(const Place& directory);
// Returns the message of row `id` if a directory with these names shows its
// sign; otherwise "".
std::string TextOfSign(std::string_view id, const Place& directory,
                       const std::vector<std::string>& sorted_names);
// Returns FailedPrecondition for a directory with these names if it has the
// databases of several processes but no merged database. Each database holds
// only some chunks of the arrays, and its reader would take the missing chunks
// for fill values.
Status CheckPartsAreMerged(const Place& directory,
                           const std::vector<std::string>& sorted_names);

// Adds to the status what the file is, if the file is not what the reader took
// it for. `read_as` is a row's id, or "" for any format that is read.
// REQUIRES: the status is not ok.
Status WithWhatFileIs(const Status& status, Store& store, std::string_view key,
                      std::string_view read_as);

}  // namespace holdfast
