#include "foreign/dcp/dcp.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <unordered_set>

#include "engine/commit/known_formats.h"
#include "engine/restore/leaf_request.h"
#include "foreign/dcp/dcp_flat.h"
#include "foreign/dcp/dcp_metadata.h"
#include "foreign/extents/extent_checkpoint.h"
#include "foreign/sidecar/tree_sidecar.h"
#include "foreign/torch/pickled_leaf.h"
#include "formats/pickle/torch_archive.h"
#include "formats/pickle/torch_writer.h"
#include "ground/base/no_throw.h"
#include "ground/base/status_macros.h"
#include "ground/base/text.h"
#include "holdfast/tools/torch_file.h"
#include "stores/storage/read_if_there.h"

namespace holdfast {
namespace {

constexpr std::string_view kShardedBackendFile = "metadata.json";
constexpr std::string_view kCommonFile = "common.pt";
constexpr std::string_view kCommonRecord = "common_state/shard_0_1";
// Objects up to this size are examined when the checkpoint is opened.
constexpr uint64_t kSmallObjectBytesMax = uint64_t{1} << 20;

// Returns whether a checkpoint with this metadata.json was written by Megatron.
Result<bool> NamesBackend(std::string_view text) {
  const auto json = nlohmann::json::parse(text, nullptr, false);
  return json.is_object() && json.contains("sharded_backend");
}

class DcpOpener {
 public:
  DcpOpener(const Place& directory, const OpenOptions& options)
      : directory_(directory),
        options_(options),
        store_(directory.OpenStore()) {}

  Result<std::unique_ptr<Checkpoint>> Open() {
    HF_ASSIGN_OR_RETURN(const Bytes text,
                        store_->Read(std::string(kDcpMetadataFile)));
    Result<DcpMetadata> metadata = ParseDcpMetadata(text.view());
    if (!metadata.ok()) {
      return WithWhatFileIs(metadata.status(), *store_, kDcpMetadataFile,
                            "pickle");
    }
    metadata_ = *std::move(metadata);
    HF_ASSIGN_OR_RETURN(
        is_megatron_, ReadOrEmpty(*store_, kShardedBackendFile, NamesBackend));
    HF_RETURN_IF_ERROR(CheckOverlaps());
    HF_RETURN_IF_ERROR(ReadSidecar());
    for (DcpEntry& entry : metadata_.entries) AddEntry(entry);
    HF_RETURN_IF_ERROR(AddCommonFile());
    DropStandIns();
    HF_ASSIGN_OR_RETURN(
        std::unique_ptr<Checkpoint> checkpoint,
        MakeExtentCheckpoint(
            OneItemInfo(directory_.path(), is_megatron_ ? "torch-dist" : "dcp"),
            store_, std::move(leaves_)));
    if (!sidecar_) return checkpoint;
    return WithSidecar(std::move(checkpoint), *sidecar_);
  }

 private:
  // Checks that no two records share bytes: one of their entries would be
  // wrong.
  Status CheckOverlaps() const {
    std::vector<std::pair<const DcpRecord*, const std::string*>> records;
    for (const DcpEntry& entry : metadata_.entries) {
      if (entry.is_object) records.emplace_back(&entry.record, &entry.name);
      for (const DcpChunk& chunk : entry.chunks) {
        records.emplace_back(&chunk.record, &entry.name);
      }
    }
    std::ranges::sort(records, [](const auto& a, const auto& b) {
      return std::tie(a.first->file, a.first->offset) <
             std::tie(b.first->file, b.first->offset);
    });
    for (size_t i = 1; i < records.size(); ++i) {
      const DcpRecord& before = *records[i - 1].first;
      const DcpRecord& record = *records[i].first;
      if (before.file != record.file ||
          before.byte_count <= record.offset - before.offset) {
        continue;
      }
      return DataLossError(".metadata: the records of \"" +
                           *records[i - 1].second + "\" and of \"" +
                           *records[i].second + "\" overlap in " + record.file +
                           " at offset " + std::to_string(record.offset));
    }
    return Status();
  }

  void AddEntry(DcpEntry& entry) {
    ExtentLeaf leaf;
    LeafInfo& info = leaf.info;
    if (entry.key.empty()) {
      entry.key = {entry.name};
      entry.key_kinds = {KeyKind::kName};
    }
    info.key = entry.key;
    info.key_kinds = entry.key_kinds;
    info.name = Joined(info.key, ".");
    const Status status =
        entry.is_object ? AddObject(entry, leaf) : AddTensor(entry, leaf);
    if (!status.ok()) {
      info.problem = status.WithContext("leaf " + info.name);
      leaf.extents.clear();
    }
    leaves_.push_back(std::move(leaf));
  }

  // Returns a record as a source that can be read in parts. Checks that the
  // record is inside its file.
  Result<pickle::StoreSource> SourceOf(const DcpRecord& record) const {
    HF_ASSIGN_OR_RETURN(const ObjectInfo file, store_->Stat(record.file));
    if (record.byte_count > file.byte_count ||
        record.offset > file.byte_count - record.byte_count) {
      const Status cut = DataLossError(
          store_->Describe(record.file) + ": a record of " +
          std::to_string(record.byte_count) + " bytes at offset " +
          std::to_string(record.offset) + " does not lie in the file of " +
          std::to_string(file.byte_count) + " bytes");
      return WithWhatFileIs(cut, *store_, record.file, "");
    }
    return pickle::StoreSource(*store_, record.file,
                               {record.offset, record.byte_count});
  }

  Status AddTensor(const DcpEntry& entry, ExtentLeaf& leaf) const {
    leaf.info.kind = ValueKind::kArray;
    leaf.info.shape =
        entry.flattened_shape ? *entry.flattened_shape : entry.shape;
    leaf.info.codecs = "none";
    leaf.info.dtype = entry.dtype.value_or(DType::kUint8);
    if (!entry.dtype) {
      return UnimplementedError("it is of " + entry.torch_dtype +
                                ", which holdfast does not have");
    }
    for (const DcpChunk& chunk : entry.chunks) {
      const Status status = AddChunk(entry, chunk, leaf);
      if (!status.ok()) {
        return status.WithContext(chunk.record.file + " at offset " +
                                  std::to_string(chunk.record.offset));
      }
    }
    return Status();
  }

  Status AddChunk(const DcpEntry& entry, const DcpChunk& chunk,
                  ExtentLeaf& leaf) const {
    HF_ASSIGN_OR_RETURN(const pickle::StoreSource source,
                        SourceOf(chunk.record));
    HF_ASSIGN_OR_RETURN(pickle::TensorPlace place,
                        pickle::LocateTensor(source));
    if (place.dtype != *entry.dtype || place.shape != chunk.box.shape) {
      return DataLossError("the record of chunk " + BoxToString(chunk.box) +
                           " holds " + std::string(DTypeName(place.dtype)) +
                           ShapeToString(place.shape) + ", want " +
                           std::string(DTypeName(*entry.dtype)) +
                           ShapeToString(chunk.box.shape));
    }
    Extent extent;
    extent.file = chunk.record.file;
    extent.offset = chunk.record.offset + place.offset;
    extent.strides = std::move(place.strides);
    if (entry.flattened_shape) {
      return AddFlattened(entry, chunk, extent, leaf);
    }
    extent.box = chunk.box;
    leaf.extents.push_back(std::move(extent));
    return Status();
  }

  // Adds a chunk of a flattened tensor. `stored` is the chunk in its stored
  // form: cells of the grid, then elements.
  Status AddFlattened(const DcpEntry& entry, const DcpChunk& chunk,
                      const Extent& stored, ExtentLeaf& leaf) const {
    const Shape& shape = *entry.flattened_shape;
    const size_t rank = shape.size();
    Shape local(rank);
    bool fits = entry.shape.size() == rank + 1;
    for (size_t i = 0; fits && i < rank; ++i) {
      fits = entry.shape[i] > 0 && shape[i] % entry.shape[i] == 0;
      if (fits) local[i] = shape[i] / entry.shape[i];
    }
    if (!fits || ElementCount(local) != entry.shape.back() ||
        entry.shape.back() == 0) {
      return DataLossError("it is flattened as " + ShapeToString(entry.shape) +
                           ", which cannot be of shape " +
                           ShapeToString(shape));
    }
    const auto element = static_cast<int64_t>(DTypeBytes(*entry.dtype));
    Shape cells = chunk.box.shape;
    cells.pop_back();
    if (static_cast<uint64_t>(ElementCount(cells)) > chunk.record.byte_count) {
      return DataLossError("a chunk has more shards than bytes");
    }
    if (chunk.box.shape.back() > 1 && stored.strides.back() != element) {
      return UnimplementedError("flattened elements that do not lie in a row");
    }
    const int64_t begin = chunk.box.origin.back();
    const int64_t end = begin + chunk.box.shape.back();
    const int64_t cell_count = ElementCount(cells);
    for (int64_t number = 0; number < cell_count; ++number) {
      Extent cell = stored;
      Shape corner(rank);
      int64_t rest = number;
      for (size_t i = rank; i-- > 0;) {
        const int64_t at = rest % cells[i];
        rest /= cells[i];
        corner[i] = (chunk.box.origin[i] + at) * local[i];
        cell.offset += static_cast<uint64_t>(at * stored.strides[i]);
      }
      ForEachBoxOfRun(local, begin, end, [&](const Box& box, int64_t first) {
        Extent& part = leaf.extents.emplace_back(cell);
        part.box = Absolute(box, corner);
        part.offset += static_cast<uint64_t>((first - begin) * element);
        part.strides.clear();
      });
    }
    return Status();
  }

  Status AddObject(const DcpEntry& entry, ExtentLeaf& leaf) const {
    leaf.info.kind = ValueKind::kObject;
    leaf.info.stored_bytes = entry.record.byte_count;
    if (is_megatron_ && entry.name == kCommonRecord) {
      leaf.info = CommonStateLeaf(entry.record.byte_count);
    }
    HF_ASSIGN_OR_RETURN(const pickle::StoreSource source,
                        SourceOf(entry.record));
    const bool is_small = source.size() <= kSmallObjectBytesMax;
    // An object that the sidecar lists stays an object, whatever it contains.
    if (!is_megatron_ && is_small && !objects_.contains(leaf.info.name)) {
      HF_ASSIGN_OR_RETURN(const std::string text,
                          source.ReadString(0, source.size()));
      const Result<PickleValue> value = ReadTorchFile(text);
      ExtentLeaf known = leaf;
      if (value.ok() && BecomeValue(*value, known)) {
        leaf = std::move(known);
        return Status();
      }
    }
    leaf.read_text = [store = store_, record = entry.record,
                      is_listed = is_megatron_]() -> Result<std::string> {
      HF_ASSIGN_OR_RETURN(
          const Bytes text,
          store->Read(record.file, {record.offset, record.byte_count}));
      if (!is_listed) return text.ToString();
      return pickle::UnwrapFromList(text.view());
    };
    return Status();
  }

  static LeafInfo CommonStateLeaf(uint64_t byte_count) {
    LeafInfo info =
        NamedLeaf(std::string(kCommonStateLeaf), ValueKind::kObject);
    info.stored_bytes = byte_count;
    return info;
  }

  // Adds the common state from its own file, as it was stored before July 2026.
  Status AddCommonFile() {
    if (!is_megatron_) return Status();
    const Result<ObjectInfo> file = store_->Stat(kCommonFile);
    if (!file.ok()) {
      return file.status().code() == StatusCode::kNotFound ? Status()
                                                           : file.status();
    }
    ExtentLeaf leaf;
    leaf.info = CommonStateLeaf(file->byte_count);
    leaf.read_text = [store = store_]() -> Result<std::string> {
      HF_ASSIGN_OR_RETURN(const Bytes text, store->Read(kCommonFile));
      return text.ToString();
    };
    leaves_.push_back(std::move(leaf));
    return Status();
  }

  Status ReadSidecar() {
    if (!options_.use_sidecar) return Status();
    HF_ASSIGN_OR_RETURN(sidecar_,
                        ReadIfThere(*store_, kSidecarFile, ParseSidecar));
    if (!sidecar_) return Status();
    for (const SidecarLeaf& leaf : sidecar_->leaves) {
      const bool is_object =
          leaf.kind == ValueKind::kObject && !leaf.stored.empty();
      if (is_object) objects_.insert(leaf.stored);
    }
    return Status();
  }

  // Drops leaves that are only placeholders for leaves of the sidecar.
  void DropStandIns() {
    if (!sidecar_ || sidecar_->is_partial) return;
    std::unordered_set<std::string_view> stored;
    for (const SidecarLeaf& leaf : sidecar_->leaves) stored.insert(leaf.stored);
    std::erase_if(leaves_, [&](const ExtentLeaf& leaf) {
      return !stored.contains(leaf.info.name) &&
             (IsEmptyKind(leaf.info.kind) ||
              leaf.info.name == kCommonStateLeaf);
    });
  }

  const Place& directory_;
  const OpenOptions& options_;
  const std::shared_ptr<Store> store_;
  DcpMetadata metadata_;
  bool is_megatron_ = false;
  std::vector<ExtentLeaf> leaves_;
  std::optional<TreeSidecar> sidecar_;
  std::unordered_set<std::string> objects_;  // names, from the sidecar
};

}  // namespace

bool IsReadAsValue(std::string_view torch_file) {
  if (torch_file.size() > kSmallObjectBytesMax) return false;
  const Result<PickleValue> value = ReadTorchFile(torch_file);
  ExtentLeaf leaf;
  return value.ok() && BecomeValue(*value, leaf);
}

Result<std::unique_ptr<Checkpoint>> OpenDcp(const Place& directory,
                                            const OpenOptions& options) {
  return CatchBadAlloc([&]() -> Result<std::unique_ptr<Checkpoint>> {
    auto checkpoint = DcpOpener(directory, options).Open();
    if (!checkpoint.ok()) {
      return checkpoint.status().WithContext(directory.path());
    }
    return checkpoint;
  });
}

}  // namespace holdfast
