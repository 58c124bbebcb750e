// The files that a view refers to: their names in it, and the links (or copies)
// that put them there. Buckets have no links; there the server makes copies
// (bucket_sources.h).
//
// Thread-safety: one thread. Units: bytes.
// Errors: those of the file system; Unimplemented for a kind of link that the
// file system does not support, saying which kinds it does.
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

// Numbers files in the order of Add, and names them: safetensors files of one
// directory keep their names, so that the view is a model of them too; all
// others go below "sources/", under their paths relative to the source's
// directory.
class SourceNames {
 public:
  // `link` is how the files will be placed.
  SourceNames(std::string directory, LinkKind link)
      : directory_(std::move(directory)),
        is_own_(link == LinkKind::kCopy || link == LinkKind::kReflink) {}

  // The index in rows() of the file at `path` (absolute, or a URL).
  Result<uint32_t> Add(const std::string& path);
  std::shared_ptr<const std::vector<SourceFile>> rows() const { return rows_; }
  // The versions of objects, indexed like rows(), that copies must be made
  // from.
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
// of copies are durable when this returns; names are when the save has
// committed. `final_path` is the directory's later path, if it moves to another
// parent; relative links lead from there.
Status PlaceSources(const std::string& directory,
                    const std::vector<SourceFile>& rows, LinkKind kind,
                    bool sync, const std::string& final_path = "");

// Whether a file is one of the small files that accompany a model's tensors:
// config.json, the index of its shards, tokenizers.
inline constexpr uint64_t kCompanionBytesMax = uint64_t{64} << 20;
bool IsCompanion(std::string_view name, uint64_t byte_count);
// Copies the companions in directory `from` into `directory`.
Status CopyCompanions(const std::string& from, const Place& directory,
                      bool sync);

}  // namespace holdfast
