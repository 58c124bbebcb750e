#include "engine/save/chunk_cover.h"

#include <algorithm>
#include <set>
#include <unordered_map>
#include <vector>

#include "formats/zarr/format/chunk_key.h"
#include "formats/zarr/format/metadata.h"
#include "ground/base/status_macros.h"

namespace holdfast {
namespace {

std::string NameOf(const CoveredArray& array) {
  std::string name = array.prefix;
  if (name.ends_with('/')) name.pop_back();
  return name.empty() ? "the array" : "array " + name;
}

// A key consists of the array's prefix, a '/' unless the array is bare, and the
// chunk's part, which in zarr 3 contains further slashes.
class Lookup {
 public:
  explicit Lookup(std::span<const CoveredArray> arrays) {
    for (size_t i = 0; i < arrays.size(); ++i) {
      by_prefix_.emplace(arrays[i].prefix, i);
    }
  }

  // Returns the array with the longest prefix of the key; null if no prefix
  // fits.
  const size_t* Find(std::string_view key) const {
    for (size_t end = key.rfind('/'); end != std::string_view::npos;
         end = end == 0 ? std::string_view::npos : key.rfind('/', end - 1)) {
      const auto it = by_prefix_.find(key.substr(0, end + 1));
      if (it != by_prefix_.end()) return &it->second;
    }
    const auto bare = by_prefix_.find(std::string_view());
    return bare == by_prefix_.end() ? nullptr : &bare->second;
  }

 private:
  std::unordered_map<std::string_view, size_t> by_prefix_;
};

// Returns an error that says what is wrong with an array. The search is slow,
// so it is used only for an array that is known to be wrong.
Status Explain(const CoveredArray& array, const Lookup& lookup, size_t number,
               std::span<const std::string_view> keys) {
  const ChunkGrid& grid = array.layout->grid;
  std::set<std::string_view> found;
  for (const std::string_view key : keys) {
    const size_t* owner = lookup.Find(key);
    if (owner == nullptr || *owner != number || zarr::IsMetadataKey(key))
      continue;
    if (!zarr::ParseChunkKey(array.layout->format.metadata,
                             key.substr(array.prefix.size()))) {
      return FailedPreconditionError(NameOf(array) + ": \"" + std::string(key) +
                                     "\" is not a chunk of it");
    }
    if (!found.insert(key).second) {
      return FailedPreconditionError(NameOf(array) + ": chunk \"" +
                                     std::string(key) +
                                     "\" was written by two processes");
    }
  }
  const int64_t want = grid.ChunkCount();
  for (int64_t i = 0; i < want; ++i) {
    const std::string key = zarr::ChunkKey(
        array.prefix, array.layout->format.metadata, grid.ChunkIndex(i));
    if (found.contains(key)) continue;
    return FailedPreconditionError(
        NameOf(array) + ": no process wrote chunk \"" + key + "\" (got " +
        std::to_string(found.size()) + " chunks, want " + std::to_string(want) +
        ")");
  }
  return Status();
}

}  // namespace

Status CheckChunkCover(std::span<const CoveredArray> arrays,
                       std::span<const std::string_view> keys) {
  const Lookup lookup(arrays);
  std::vector<int64_t> counts(arrays.size(), 0);
  for (const std::string_view key : keys) {
    if (zarr::IsMetadataKey(key)) continue;
    if (const size_t* owner = lookup.Find(key)) ++counts[*owner];
  }
  // An array with the right number of keys and no duplicates has all its
  // chunks. Only other arrays need Explain, which is slow.
  std::vector<std::string_view> sorted(keys.begin(), keys.end());
  std::sort(sorted.begin(), sorted.end());
  const auto twice = std::adjacent_find(sorted.begin(), sorted.end());
  if (const size_t* owner =
          twice == sorted.end() ? nullptr : lookup.Find(*twice)) {
    HF_RETURN_IF_ERROR(Explain(arrays[*owner], lookup, *owner, keys));
  }
  for (size_t i = 0; i < arrays.size(); ++i) {
    if (counts[i] == arrays[i].layout->grid.ChunkCount()) continue;
    HF_RETURN_IF_ERROR(Explain(arrays[i], lookup, i, keys));
  }
  return Status();
}

}  // namespace holdfast
