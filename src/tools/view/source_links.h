// The files that a view refers to: their names in it, and the links (or copies)
// that put them there. In buckets, which have no links, copies by the server
// (bucket_sources.h).
//
// Thread-safety: one thread. Units: bytes.
// Errors: those of the file system; Unimplemented for a kind of link that it
// does not know, saying which others there are.
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

// Numbers files as they are met, and names them: safetensors of one directory
// keep their names, so that the view is a model of them, too; all others go
// below "sources/", by their paths from the source's directory on.
class SourceNames {
 public:
  // `link`: how they will be placed.
  SourceNames(std::string directory, LinkKind link)
      : directory_(std::move(directory)),
        is_own_(link == LinkKind::kCopy || link == LinkKind::kReflink) {}

  // The number of the file at `path` (absolute, or a URL) in rows().
  Result<uint32_t> Add(const std::string& path);
  std::shared_ptr<const std::vector<SourceFile>> rows() const { return rows_; }
  // The versions of objects, as rows(): the ones that a copy has to be of.
  const std::vector<std::string>& versions() const { return versions_; }

 private:
  std::string NameOf(const std::string& path) const;

  const std::string directory_;
  const bool is_own_;  // copies, which nobody else writes
  std::unordered_map<std::string, uint32_t> numbers_;  // by path
  std::unordered_set<std::string> taken_;              // names in the view
  std::shared_ptr<std::vector<SourceFile>> rows_ =
      std::make_shared<std::vector<SourceFile>>();
  std::vector<std::string> versions_;
};

// Makes the directory, and in it what each row says. With `sync` the bytes of
// copies are durable then; the names are when the save has committed.
// `final_path`: the directory's path later on, where it moves to another
// parent; relative links lead from there.
Status PlaceSources(const std::string& directory,
                    const std::vector<SourceFile>& rows, LinkKind kind,
                    bool sync, const std::string& final_path = "");

// Whether it is one of the small files of a model that lie beside its tensors:
// config.json, the index of its shards, tokenizers.
inline constexpr uint64_t kCompanionBytesMax = uint64_t{64} << 20;
bool IsCompanion(std::string_view name, uint64_t byte_count);
// Copies those of directory `from` into the directory.
Status CopyCompanions(const std::string& from, const Place& directory,
                      bool sync);

}  // namespace holdfast
