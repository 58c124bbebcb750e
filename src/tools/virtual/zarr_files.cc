#include "tools/virtual/zarr_files.h"

#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "engine/save/save_options.h"
#include "engine/save/save_plan.h"
#include "formats/zarr/format/chunk_key.h"
#include "ground/base/status_macros.h"
#include "ground/json/text.h"
#include "ground/tensor/copy.h"
#include "tools/convert/chunk_feed.h"
#include "tools/convert/orbax_plan.h"

namespace holdfast {
namespace {

constexpr std::string_view kGroupText = "{\"zarr_format\":2}";
constexpr uint32_t kChunkKind = 1;  // of LeafBytes::KeyOf

// Splits "a/b" into "a" and "b", and "b" into "" and "b".
std::pair<std::string_view, std::string_view> SplitName(std::string_view name) {
  const size_t slash = name.rfind('/');
  if (slash == std::string_view::npos) return {"", name};
  return {name.substr(0, slash), name.substr(slash + 1)};
}

// Returns true for a part that gets a '_' appended: a part that no directory
// can have, one of the group's own files, or any of these followed by
// underscores (so that names stay unique).
bool IsTaken(std::string_view part) {
  while (part.ends_with('_')) part.remove_suffix(1);
  for (const std::string_view taken :
       {"", ".", "..", ".zgroup", ".zarray", ".zattrs", ".zmetadata"}) {
    if (part == taken) return true;
  }
  return false;
}

// Returns the path of an array or group below the top. It is different for each
// name, and files can be copied under it. NUL and backslash become %00 and %5C.
std::string PathOfName(std::string_view name) {
  std::string path;
  for (;;) {
    const std::string_view part = name.substr(0, name.find('/'));
    for (size_t i = 0; i < part.size(); ++i) {
      const std::string_view next = part.substr(i + 1, 2);
      const bool is_escape =
          part[i] == '%' && (next == "00" || next == "5C" || next == "25");
      if (part[i] == '\0') {
        path += "%00";
      } else if (part[i] == '\\') {
        path += "%5C";
      } else if (is_escape) {
        path += "%25";
      } else {
        path += part[i];
      }
    }
    if (IsTaken(part)) path += '_';
    if (part.size() == name.size()) return path;
    name.remove_prefix(part.size() + 1);
    path += '/';
  }
}

// Returns attributes with a unique name for each axis, because xarray requires
// axes with the same name to be equally long.
std::string AttributesText(const std::string& name, size_t rank) {
  nlohmann::json names = nlohmann::json::array();
  for (size_t axis = 0; axis < rank; ++axis) {
    names.push_back(name + "_" + std::to_string(axis));
  }
  return nlohmann::json{{"_ARRAY_DIMENSIONS", std::move(names)}}.dump();
}

class ZarrFiles final : public FileTree {
 public:
  explicit ZarrFiles(std::shared_ptr<const LeafBytes> leaves)
      : leaves_(std::move(leaves)),
        feed_(std::make_unique<ChunkFeed>(leaves_->checkpoint(),
                                          std::vector<FeedUnit>(),
                                          FeedOptions{leaves_->run(), 0})) {}

  Status Plan() {
    ConvertOptions options;
    options.format = Format::kOrbax;
    options.zarr_format = 2;
    options.use_ocdbt = false;
    options.compression = Compression::kNone;
    HF_ASSIGN_OR_RETURN(OrbaxPlan plan,
                        MakeOrbaxPlan(leaves_->checkpoint(), options));
    for (PlannedItem& item : plan.items) {
      if (!item.place.json_file.empty()) continue;
      HF_RETURN_IF_ERROR(PlanItem(item, options));
    }
    return AddTexts();
  }

  Result<VirtualEntry> Stat(std::string_view name) const override {
    if (const Result<VirtualEntry> found = names_.Stat(name); found.ok()) {
      return found;
    }
    HF_ASSIGN_OR_RETURN(const Chunk chunk, FindChunk(name));
    return VirtualEntry{std::string(name), false, chunk.array->chunk_bytes()};
  }

  Result<std::vector<VirtualEntry>> List(
      std::string_view directory) const override {
    HF_ASSIGN_OR_RETURN(std::vector<VirtualEntry> entries,
                        names_.List(directory));
    const auto array = arrays_.find(directory);
    if (array == arrays_.end()) return entries;
    const ArrayLayout& layout = array->second.layout();
    for (int64_t i = 0; i < layout.grid.ChunkCount(); ++i) {
      entries.push_back({zarr::ChunkKey("", layout.format.metadata,
                                        layout.grid.ChunkIndex(i)),
                         false, array->second.chunk_bytes()});
    }
    return entries;
  }

  Status ReadInto(std::string_view name, uint64_t offset,
                  std::span<char> target) const override {
    if (const Result<size_t> number = names_.NumberOf(name); number.ok()) {
      std::memcpy(target.data(), texts_[*number].data() + offset,
                  target.size());
      return Status();
    }
    HF_ASSIGN_OR_RETURN(const Chunk chunk, FindChunk(name));
    const uint64_t chunk_bytes = chunk.array->chunk_bytes();
    if (chunk_bytes > leaves_->block_bytes_max()) {
      return ReadLargeChunk(chunk, offset, target);
    }
    HF_ASSIGN_OR_RETURN(
        const KeptBlocks::Block block,
        leaves_->blocks().Get(
            LeafBytes::KeyOf(kChunkKind, chunk.array->number, chunk.number),
            chunk_bytes, [&](Buffer& buffer) {
              return ReadChunk(chunk, {buffer.data(), chunk_bytes});
            }));
    std::memcpy(target.data(), block->data() + offset, target.size());
    return Status();
  }

 private:
  struct NamedArray {
    uint32_t number = 0;
    const PlannedArray* planned = nullptr;

    const ArrayLayout& layout() const { return *planned->layout->array; }
    uint64_t chunk_bytes() const { return layout().chunk_bytes; }
  };
  struct Chunk {
    const NamedArray* array = nullptr;
    Shape index;
    uint64_t number = 0;  // index in the grid
  };

  Status PlanItem(PlannedItem& item, const ConvertOptions& options) {
    items_.push_back(std::make_unique<PlannedItem>(std::move(item)));
    PlannedItem& kept = *items_.back();
    if (kept.tree.feed != nullptr) *kept.tree.feed = feed_.get();
    SaveOptions save;
    save.zarr_format = 2;
    // With OCDBT, names that cannot be directories ("a//b") are allowed, too.
    save.use_ocdbt = true;
    save.compression = options.compression;
    save.chunk_bytes = options.chunk_bytes;
    HF_ASSIGN_OR_RETURN(SavePlan plan,
                        MakeSavePlan(kept.tree.tree, WithSources(save)));
    plans_.push_back(std::make_unique<SavePlan>(std::move(plan)));
    const std::string prefix =
        kept.place.name.empty() ? "" : kept.place.name + "/";
    for (const PlannedArray& array : plans_.back()->arrays) {
      const uint32_t number = arrays_.size();
      arrays_[PathOfName(prefix + array.name)] = {number, &array};
    }
    if (!prefix.empty()) groups_.insert(PathOfName(kept.place.name));
    return Status();
  }

  // Makes each directory above an array a group, as readers expect.
  void AddGroups() {
    for (const auto& [path, array] : arrays_) {
      for (size_t slash = path.find('/'); slash != std::string::npos;
           slash = path.find('/', slash + 1)) {
        std::string above = path.substr(0, slash);
        if (!arrays_.contains(above)) groups_.insert(std::move(above));
      }
    }
  }

  Status AddText(const std::string& name, std::string text) {
    texts_.push_back(std::move(text));
    return names_.AddFile(name, texts_.back().size(), texts_.size() - 1);
  }

  // Adds the metadata files. The consolidated file contains all others, except
  // those of arrays of dtypes that numpy lacks.
  Status AddTexts() {
    nlohmann::json all = nlohmann::json::object();
    const auto add = [&](const std::string& name, std::string text,
                         bool is_listed) -> Status {
      if (is_listed) {
        HF_ASSIGN_OR_RETURN(all[name], ParseJsonText(text));
      }
      return AddText(name, std::move(text));
    };
    AddGroups();
    HF_RETURN_IF_ERROR(add(".zgroup", std::string(kGroupText), true));
    for (const std::string& group : groups_) {
      HF_RETURN_IF_ERROR(
          add(group + "/.zgroup", std::string(kGroupText), true));
    }
    for (const auto& [name, array] : arrays_) {
      const std::string& text = array.planned->layout->metadata_text;
      HF_ASSIGN_OR_RETURN(const auto metadata, ParseJsonText(text));
      const std::string dtype = metadata.value("dtype", "");
      const bool is_numpys =
          !dtype.empty() && std::strchr("<>|", dtype[0]) != nullptr;
      HF_RETURN_IF_ERROR(add(name + "/.zarray", text, is_numpys));
      HF_RETURN_IF_ERROR(
          add(name + "/.zattrs",
              AttributesText(name, array.layout().grid.array_shape.size()),
              is_numpys));
    }
    return AddText(".zmetadata", nlohmann::json{{"metadata", std::move(all)},
                                                {"zarr_consolidated_format", 1}}
                                     .dump());
  }

  Result<Chunk> FindChunk(std::string_view name) const {
    const auto [array_name, key] = SplitName(name);
    const auto array = arrays_.find(array_name);
    if (array == arrays_.end()) return NoSuchFile(name);
    const ArrayLayout& layout = array->second.layout();
    std::optional<Shape> index =
        zarr::ParseChunkKey(layout.format.metadata, key);
    if (!index.has_value()) return NoSuchFile(name);
    const Shape counts = layout.grid.ChunkCounts();
    uint64_t number = 0;
    for (size_t axis = 0; axis < counts.size(); ++axis) {
      if ((*index)[axis] >= counts[axis]) return NoSuchFile(name);
      number = number * counts[axis] + (*index)[axis];
    }
    return Chunk{&array->second, *std::move(index), number};
  }

  // Reads a complete chunk, padded with the fill value beyond the array's edge.
  Status ReadChunk(const Chunk& chunk, std::span<char> target) const {
    const ArrayLayout& layout = chunk.array->layout();
    const zarr::ArrayMetadata& metadata = layout.format.metadata;
    const ArrayView whole{
        metadata.dtype, target.data(), metadata.chunk_shape,
        ContiguousStrides(metadata.chunk_shape, DTypeBytes(metadata.dtype))};
    const Box box = layout.grid.ChunkBox(chunk.index);
    if (box.shape != metadata.chunk_shape) {
      FillStrided(whole, metadata.fill_element.data());
    }
    const Box inside{Shape(box.shape.size(), 0), box.shape};
    return chunk.array->planned->source.CopyTo(box, Subview(whole, inside));
  }

  // Reads a part of a chunk that is too large for the cache, in memory that is
  // freed afterwards.
  Status ReadLargeChunk(const Chunk& chunk, uint64_t offset,
                        std::span<char> target) const {
    Buffer buffer = Buffer::TryAllocate(chunk.array->chunk_bytes());
    if (buffer.data() == nullptr) {
      return ResourceExhaustedError("no memory for a chunk of " +
                                    std::to_string(chunk.array->chunk_bytes()) +
                                    " bytes");
    }
    HF_RETURN_IF_ERROR(
        ReadChunk(chunk, {buffer.data(), chunk.array->chunk_bytes()}));
    std::memcpy(target.data(), buffer.data() + offset, target.size());
    return Status();
  }

  const std::shared_ptr<const LeafBytes> leaves_;
  // The feed has no units, so everything read through it comes from the
  // checkpoint.
  const std::unique_ptr<ChunkFeed> feed_;
  std::vector<std::unique_ptr<PlannedItem>> items_;
  std::vector<std::unique_ptr<SavePlan>> plans_;  // one per tree of items_
  std::map<std::string, NamedArray, std::less<>> arrays_;
  std::set<std::string> groups_;
  std::vector<std::string> texts_;
  NameIndex names_;
};

}  // namespace

Result<std::unique_ptr<FileTree>> MakeZarrFiles(
    std::shared_ptr<const LeafBytes> leaves) {
  auto files = std::make_unique<ZarrFiles>(std::move(leaves));
  HF_RETURN_IF_ERROR(files->Plan());
  return std::unique_ptr<FileTree>(std::move(files));
}

}  // namespace holdfast
