// All files at or below a place, with what tells two contents apart.
//
// Thread-safety: any thread. Ownership: values; a listing keeps its bucket
// alive. Units: bytes; nanoseconds since 1970.
// Errors: those of the file system and of stores/cloud/bucket.h, with the
// place; FailedPrecondition for a symbolic link below the place that is not to
// be followed (it must not be left out quietly); DataLoss for sizes of a server
// that add up to more than 2^63 bytes.
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "holdfast/status.h"
#include "stores/cloud/bucket.h"
#include "stores/place/place.h"

namespace holdfast {

struct ListedFile {
  std::string name;  // relative to the place; "" when the place is this file
  uint64_t byte_count = 0;
  // Another one means another content: a bucket's version; of a local file its
  // inode and times.
  std::string version;
};

struct TreeListing {
  Place place;  // absolute
  bool is_file = false;
  std::vector<ListedFile> files;  // by name
  // Something that a directory named was gone when it was looked at.
  bool has_vanished = false;
  // For URLs: the bucket; null for a local place.
  std::shared_ptr<Bucket> bucket;
  std::string key;

  bool is_local() const { return bucket == nullptr; }
  // The path or URL of a file, and its key in the bucket.
  std::string PathOf(const ListedFile& file) const;
  std::string KeyOf(const ListedFile& file) const;
  const ListedFile* Find(std::string_view name) const;
  uint64_t byte_count() const;
};

// Symbolic links below the place. The place itself may be one.
enum class LinkPolicy : uint8_t {
  // Links are followed to files below the place. A link that leads out of it,
  // or to a directory, is an error: the maker of the tree must not choose which
  // other files are read.
  kInside,
  kFollow,
  // Links are followed to files only. Links to directories, which may lead
  // anywhere and back, links that lead nowhere, special files and whatever may
  // not be read are left out.
  kOnlyFiles,
};

// An absent place has no files. Where nothing can be listed (http), the result
// is a file, or the files that the `_HOLDFAST_DIGESTS` of a checkpoint there
// names.
Result<TreeListing> ListWholeTree(const Place& place,
                                  LinkPolicy links = LinkPolicy::kInside);

// A local file's: another inode or time is another version.
std::string VersionOfFile(const struct stat& info);

// Differs whenever a name, size or version below does.
uint64_t ListingHash(const TreeListing& listing);

}  // namespace holdfast
