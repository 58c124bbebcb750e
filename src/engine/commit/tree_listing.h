// Lists all files at or below a place, each with an identifier of its content's
// version.
//
// Thread-safety: any thread. Ownership: values; a listing keeps its bucket
// alive. Units: bytes; nanoseconds since 1970.
// Errors: those of the file system and of stores/cloud/bucket.h, with the
// place; FailedPrecondition for a symbolic link below the place that must not
// be followed (leaving it out silently would be wrong); DataLoss when the sizes
// that a server reports add up to more than 2^63 bytes.
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
  // Changes whenever the content does: a bucket's version, or a local file's
  // inode and times.
  std::string version;
};

struct TreeListing {
  Place place;  // absolute
  bool is_file = false;
  std::vector<ListedFile> files;  // by name
  // True if an entry of a directory was removed before it was examined.
  bool has_vanished = false;
  // For URLs: the bucket; null for a local place.
  std::shared_ptr<Bucket> bucket;
  std::string key;

  bool is_local() const { return bucket == nullptr; }
  // Return the path or URL of a file, and its key in the bucket.
  std::string PathOf(const ListedFile& file) const;
  std::string KeyOf(const ListedFile& file) const;
  const ListedFile* Find(std::string_view name) const;
  uint64_t byte_count() const;
};

// How to treat symbolic links below the place. The place itself may be a link.
enum class LinkPolicy : uint8_t {
  // Follows links to files below the place. A link that leads out of it, or to
  // a directory, is an error: the tree's author must not choose which other
  // files are read.
  kInside,
  kFollow,
  // Follows links to files only. Leaves out links to directories (which may
  // form cycles), dangling links, special files and unreadable entries.
  kOnlyFiles,
};

// Lists the place. A missing place has no files. If the server cannot list
// (http), the result is a single file, or the files named by the
// `_HOLDFAST_DIGESTS` of a checkpoint there.
Result<TreeListing> ListWholeTree(const Place& place,
                                  LinkPolicy links = LinkPolicy::kInside);

// Returns the version of a local file, which changes with its inode and times.
std::string VersionOfFile(const struct stat& info);

// Returns a hash that changes whenever a name, size or version in the listing
// does.
uint64_t ListingHash(const TreeListing& listing);

}  // namespace holdfast
