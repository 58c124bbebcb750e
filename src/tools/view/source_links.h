// Names the files that a view refers to, and puts links to them (or copies)
// into the view. Buckets have no links; there the server makes copies
// (bucket_sources.h).
//
// Thread-safety: one thread. Units: bytes.
// Errors: those of the file system; Unimplemented for a kind of link that the
// file system does not support, naming the kinds that it supports.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "engine/format/digest_file.h"
#include "holdfast/tools/view.h"
#include "stores/place/place.h"

namespace holdfast {

// Numbers files in the order of Add, and gives them names in the view. The
// safetensors files of a single directory keep their names, so that the view is
// a safetensors model too. All other files go below "sources/", under their
// paths relative to the source's directory.
class SourceNames {
 public:
  // `directory` is the source's. `link` is how the files will be placed.
  SourceNames(std::string directory, LinkKind link)
      : directory_(std::move(directory)),
        is_own_(link == LinkKind::kCopy || link == LinkKind::kReflink) {}

  // Adds the file at `path` (absolute, or a URL) unless it was added before.
  // Returns its index in rows().
  Result<uint32_t> Add(const std::string& path);
  std::shared_ptr<const std::vector<SourceFile>> rows() const { return rows_; }
  // Returns the objects' versions of which copies must be made, indexed like
  // rows().
  const std::vector<std::string>& versions() const { return versions_; }

 private:
  std::string NameOf(const std::string& path) const;

  const std::string directory_;
  const bool is_own_;  // copies, which no other program writes
  std::unordered_map<std::string, uint32_t> numbers_;  // by path
  std::unordered_set<std::string> taken_;              // names in the view
  std::shared_ptr<std::vector<SourceFile>> rows_ =
      std::make_shared<std::vector<SourceFile>>();
  std::vector<std::string> versions_;
};

// Creates the directory, and in it the file of each row. With `sync` the bytes
// of copies are durable when this returns, and the names once the save has
// committed. `final_path` is the directory's later path if it will move to
// another parent; relative links start there.
Status PlaceSources(const std::string& directory,
                    const std::vector<SourceFile>& rows, LinkKind kind,
                    bool sync, const std::string& final_path = "");

// Returns true for the small files that accompany a model's tensors:
// config.json, the index of the shards, tokenizers.
inline constexpr uint64_t kCompanionBytesMax = uint64_t{64} << 20;
bool IsCompanion(std::string_view name, uint64_t byte_count);
// Copies these companions from the directory `from` into `directory`.
Status CopyCompanions(const std::string& from, const Place& directory,
                      bool sync);

}  // namespace holdfast
