#include "engine/save/save_plan.h"

#include <algorithm>
#include <compare>
#include <limits>
#include <map>
#include <numeric>
#include <optional>
#include <set>

#include "engine/format/directory_names.h"
#include "engine/save/chunk_compression.h"
#include "engine/save/chunk_shapes.h"
#include "engine/save/save_options.h"
#include "ground/base/status_macros.h"
#include "ground/base/type_name.h"
#include "ground/record/recorder.h"
#include "ground/shard/chunk_split.h"
#include "ground/tree/value_type.h"

namespace holdfast {
namespace {

std::string ParamInfoText(const FlatLeaf& leaf) {
  return "ParamInfo: [name=" + ParamName(leaf.path) +
         ",value_typestr=" + std::string(leaf.value_type) + "]";
}

Status UnsupportedTypeError(std::string_view type) {
  return InvalidArgumentError(
      "Error parsing object member \"dtype\": Unsupported data type: \"" +
      std::string(type) + "\"");
}

// Refuses the dtypes that zarr does not have.
Status CheckStorable(DType dtype) {
  if (dtype == DType::kUint2 || dtype == DType::kUint4) {
    return UnsupportedTypeError(DTypeName(dtype));
  }
  return Status();
}

// Refuses the one cast that TensorStore refuses, with its message.
Status CheckCast(DType source, DType stored) {
  if (stored == DType::kBool && DTypeKindOf(source) == DTypeKind::kComplex) {
    return InvalidArgumentError("Destination does not support writing.");
  }
  return Status();
}

bool HasArrayData(const FlatLeaf& leaf) {
  return leaf.leaf->is_leaf() && (leaf.leaf->leaf_kind() == LeafKind::kArray ||
                                  leaf.leaf->leaf_kind() == LeafKind::kScalar);
}

// Checks the value_type of a leaf that a TypeHandler saves. A reserved or empty
// value_type would mean that there is no value, or that it cannot be read.
Status CheckExternal(const FlatLeaf& leaf) {
  const std::string& value_type = leaf.leaf->text();
  if (!value_type.empty() && !IsEmptyValueType(value_type)) return Status();
  return InvalidArgumentError("leaf " + ParamName(leaf.path) +
                              ": value_type \"" + value_type +
                              "\" is empty or reserved, so no TypeHandler "
                              "may have it");
}

Status CheckLeaf(const FlatLeaf& leaf) {
  if (!leaf.leaf->is_leaf()) return Status();
  switch (leaf.leaf->leaf_kind()) {
    case LeafKind::kBytes:
      return UnsupportedTypeError("bytes" +
                                  std::to_string(8 * leaf.leaf->text().size()));
    case LeafKind::kReference:
      return InvalidArgumentError("leaf " + ParamName(leaf.path) +
                                  " is a reference, not a value");
    case LeafKind::kObject:
      return InvalidArgumentError("TypeHandler lookup failed for: type=" +
                                  CppTypeName(leaf.leaf->object().type()) +
                                  ", keypath=" + KeyPathRepr(leaf.path) + ", " +
                                  ParamInfoText(leaf));
    case LeafKind::kExternal:
      return CheckExternal(leaf);
    case LeafKind::kArray:
      if (ElementCount(leaf.leaf->array_shape()) == 0) {
        return InvalidArgumentError("Cannot save arrays with zero size: " +
                                    ParamInfoText(leaf));
      }
      return Status();
    default:
      return Status();
  }
}

// Everything that decides how an array is stored.
struct LayoutKey {
  DType dtype;  // as stored
  Shape shape;
  Shape write_shape;
  std::optional<int64_t> chunk_byte_size;
  std::vector<int64_t> shard_axes;
  std::optional<Shape> write_chunk_shape;
  std::optional<Shape> read_chunk_shape;

  auto operator<=>(const LayoutKey&) const = default;
};

Result<std::shared_ptr<const SaveLayout>> LayoutOf(
    const zarr::ArrayMetadata& metadata, const Shape& write_shape) {
  auto layout = std::make_shared<SaveLayout>();
  HF_ASSIGN_OR_RETURN(layout->metadata_text, zarr::SerializeMetadata(metadata));
  HF_ASSIGN_OR_RETURN(layout->array,
                      MakeArrayLayout(metadata, MissingChunks::kRefuse));
  layout->write_shape = write_shape;
  layout->chunk_count = layout->array->grid.ChunkCount();
  return std::shared_ptr<const SaveLayout>(std::move(layout));
}

// Computes the layout of each key only once.
class LayoutMaker {
 public:
  // With `is_partial` no chunk may extend from one process's part into
  // another's.
  LayoutMaker(const SaveOptions& options, bool is_partial, int zarr_format)
      : options_(options), is_partial_(is_partial), zarr_format_(zarr_format) {}

  Result<std::shared_ptr<const SaveLayout>> Get(LayoutKey key) {
    auto& layout = layouts_[key];
    if (layout == nullptr) {
      HF_ASSIGN_OR_RETURN(layout, Make(key));
    }
    return layout;
  }

 private:
  // Applies Orbax's rule that a chunk never exceeds the data file that it is
  // written to.
  Result<Shape> OrbaxChunkShape(const LayoutKey& key,
                                std::optional<int64_t> chunk_byte_size) const {
    if (options_.use_ocdbt) {
      chunk_byte_size =
          CalculateChunkByteSize(key.write_shape, key.dtype, chunk_byte_size,
                                 options_.ocdbt_target_data_file_bytes);
    }
    return ChooseChunkShape(key.shape, key.write_shape, key.dtype,
                            chunk_byte_size, key.shard_axes);
  }

  // Returns the shape that is stored as one object, and the shape of its inner
  // chunks if that differs.
  Result<ChunkShapes> ShapesOf(const LayoutKey& key) const {
    if (key.write_chunk_shape || key.read_chunk_shape) {
      return ChooseChunkShapes({.global_shape = key.shape,
                                .shard_shape = key.write_shape,
                                .dtype = key.dtype,
                                .use_zarr3 = zarr_format_ == 3,
                                .write_chunk_shape = key.write_chunk_shape,
                                .read_chunk_shape = key.read_chunk_shape});
    }
    HF_ASSIGN_OR_RETURN(const Shape shape, ChunkShape(key));
    return ChunkShapes{shape, shape};
  }

  Result<Shape> ChunkShape(const LayoutKey& key) const {
    const uint64_t target_bytes = options_.chunk_bytes;
    if (target_bytes == 0 || key.chunk_byte_size) {
      return OrbaxChunkShape(key, key.chunk_byte_size);
    }
    const uint64_t target_bytes_max = std::numeric_limits<int64_t>::max();
    int64_t chunk_bytes = std::clamp<uint64_t>(
        target_bytes, DTypeBytes(key.dtype), target_bytes_max);
    if (!key.shard_axes.empty()) return OrbaxChunkShape(key, chunk_bytes);
    const int64_t file_bytes = options_.ocdbt_target_data_file_bytes;
    if (options_.use_ocdbt && file_bytes > 0) {
      chunk_bytes = std::min(chunk_bytes, file_bytes);
    }
    return ChooseRowChunks(key.write_shape, key.dtype, chunk_bytes);
  }

  // Makes the layout of an array in another format's file, in which each chunk
  // is one contiguous run of the file.
  Result<std::shared_ptr<const SaveLayout>> MakeOfRuns(
      const LayoutKey& key) const {
    if (key.write_chunk_shape || key.read_chunk_shape) {
      return InvalidArgumentError(
          "save_args: chunk shapes cannot be chosen for arrays that lie in "
          "files of another format, too");
    }
    constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::max();
    uint64_t target_bytes = options_.chunk_bytes;
    if (key.chunk_byte_size)
      target_bytes = std::max<int64_t>(1, *key.chunk_byte_size);
    if (target_bytes == 0) target_bytes = kNoLimit;
    const Shape chunk =
        ChooseRunChunks(key.shape, is_partial_ ? key.write_shape : key.shape,
                        key.dtype, target_bytes);
    const bool fits = ValidateDivisibleShapes(key.write_shape, chunk);
    return LayoutOf(
        zarr::RawMetadata(zarr_format_, key.shape, key.dtype, chunk),
        fits ? key.write_shape : key.shape);
  }

  Result<std::shared_ptr<const SaveLayout>> Make(const LayoutKey& key) const {
    HF_RETURN_IF_ERROR(CheckStorable(key.dtype));
    if (options_.also != nullptr) return MakeOfRuns(key);
    HF_ASSIGN_OR_RETURN(const ChunkShapes shapes, ShapesOf(key));
    const zarr::Compression compression =
        ChunkCompression(options_.compression, key.dtype, shapes.read);
    zarr::ArrayMetadata metadata =
        zarr_format_ == 3
            ? zarr::OrbaxV3(key.shape, key.dtype, shapes.write, compression)
            : zarr::OrbaxV2(key.shape, key.dtype, shapes.write, compression);
    if (metadata.sharding) metadata.sharding->chunk_shape = shapes.read;
    return LayoutOf(metadata, key.write_shape);
  }

  const SaveOptions& options_;
  const bool is_partial_;
  const int zarr_format_;
  std::map<LayoutKey, std::shared_ptr<const SaveLayout>> layouts_;
};

Status CheckAlso(const SaveOptions& options) {
  if (options.also == nullptr) return Status();
  std::string want;
  if (!options.use_ocdbt) want = "want a database (ocdbt)";
  if (!options.write_digests) {
    want = "want write_digests, by which the files are known";
  }
  if (options.compression != Compression::kNone &&
      options.compression != Compression::kPlanes) {
    want = "their bytes cannot be compressed (got compression " +
           std::string(CompressionName(options.compression)) + ")";
  }
  if (options.adopt_existing) want = "no TypeHandler may have left values";
  if (want.empty()) return Status();
  return InvalidArgumentError("save in files of another format, too (also): " +
                              want);
}

Status CheckOptions(const SaveOptions& options) {
  HF_RETURN_IF_ERROR(CheckAlso(options));
  if (!IsOrbaxFormat(options.format)) {
    return InvalidArgumentError(
        "format " + std::string(FormatName(options.format)) +
        " is written only by Convert: save as orbax or orbax-v1 and convert "
        "that");
  }
  if (options.zarr_format != 0 && options.zarr_format != 2 &&
      options.zarr_format != 3) {
    return InvalidArgumentError("zarr_format must be 2 or 3 (got " +
                                std::to_string(options.zarr_format) + ")");
  }
  if (options.fingerprints && !options.write_digests) {
    return InvalidArgumentError(
        "fingerprints need write_digests: a list that does not name their file "
        "would not vouch for it");
  }
  if (options.ocdbt_target_data_file_bytes < 0) {
    return InvalidArgumentError(
        "OCDBT target_data_file_size must be >= 0, where 0 means no limit; "
        "got " +
        std::to_string(options.ocdbt_target_data_file_bytes));
  }
  HF_RETURN_IF_ERROR(
      ParseJsonOption(options.item_documents, "item_documents").status());
  return ParseJsonOption(options.item_custom_metadata, "item_custom_metadata")
      .status();
}

// Returns the shape of the part of the array that one process writes as a unit.
Result<Shape> WriteShape(const FlatLeaf& leaf, const Shape& shape) {
  const bool is_array = leaf.leaf->leaf_kind() == LeafKind::kArray;
  if (!is_array || leaf.leaf->array_traits().write_shape.empty()) return shape;
  const Shape& write_shape = leaf.leaf->array_traits().write_shape;
  bool fits = write_shape.size() == shape.size();
  for (size_t d = 0; fits && d < shape.size(); ++d) {
    fits = write_shape[d] >= 1 && write_shape[d] <= shape[d];
  }
  if (fits) return write_shape;
  return InvalidArgumentError("leaf " + ParamName(leaf.path) +
                              ": write_shape=" + ShapeToString(write_shape) +
                              " is not a part of the shape " +
                              ShapeToString(shape));
}

// Returns whether chunks must be packed. Only compressed chunks need their
// elements in C order.
bool NeedsPacking(const PlannedArray& array) {
  const ArrayLayout& layout = *array.layout->array;
  if (layout.codec_count == 0) return false;
  for (size_t d = 0; d < layout.grid.array_shape.size(); ++d) {
    if (layout.grid.array_shape[d] % layout.grid.chunk_shape[d] != 0) {
      return true;
    }
  }
  return !array.needs_scratch && !array.source.FindsChunksPacked(layout.grid);
}

class ArrayPlanner {
 public:
  ArrayPlanner(const SaveOptions& options, const PlanPart& part, SavePlan& plan)
      : options_(options),
        part_(part),
        maker_(options, part.is_partial, plan.zarr_format),
        plan_(plan) {}

  Status AddLeaf(size_t leaf_index) {
    const FlatLeaf& leaf = plan_.leaves[leaf_index];
    HF_RETURN_IF_ERROR(CheckLeaf(leaf));
    std::string name = ParamName(leaf.path);
    const auto args = options_.save_args.find(name);
    const bool has_args = args != options_.save_args.end();
    args_used_ += has_args;
    if (!HasArrayData(leaf)) return Status();
    if (!options_.use_ocdbt) HF_RETURN_IF_ERROR(CheckDirectoryParamName(name));
    return AddArray(leaf_index, std::move(name),
                    has_args ? args->second : no_args_);
  }

  // Checks that each of save_args names a leaf. Call it after the last leaf,
  // when all names are known.
  Status CheckArgsUsed() const {
    if (args_used_ == options_.save_args.size()) return Status();
    std::set<std::string> names;
    for (const FlatLeaf& leaf : plan_.leaves)
      names.insert(ParamName(leaf.path));
    for (const auto& [name, args] : options_.save_args) {
      if (names.contains(name)) continue;
      return InvalidArgumentError("save_args: the tree has no leaf named \"" +
                                  name + "\"");
    }
    return Status();
  }

 private:
  // Chooses the chunks that this process writes. Deferred arrays are divided
  // later, when all arrays are known.
  Status ChooseChunks(PlannedArray& array) const {
    if (array.source.is_sharded()) {
      if (!part_.is_partial) return Status();
      HF_ASSIGN_OR_RETURN(array.chunks,
                          array.source.ChunksHere(array.layout->array->grid));
    } else if (!part_.is_primary && !array.source.is_divided()) {
      array.chunks.emplace();
    }
    return Status();
  }

  // Adds an array whose chunks exist and are not written. Its layout is that of
  // the existing chunks.
  Status AddStored(const StoredChunks& stored, PlannedArray& array) const {
    if (!options_.use_ocdbt || options_.also != nullptr || part_.is_partial) {
      return UnimplementedError(
          "refer to chunks where they lie: one process must write one OCDBT "
          "database, and no files of another format");
    }
    if (stored.metadata.zarr_format != plan_.zarr_format ||
        stored.metadata.shape != array.source.shape() ||
        stored.metadata.dtype != array.source.dtype()) {
      return InternalError("stored chunks of another array");
    }
    HF_ASSIGN_OR_RETURN(array.layout,
                        LayoutOf(stored.metadata, stored.metadata.shape));
    if (stored.ranges.size() != array.layout->chunk_count) {
      return InternalError("stored chunks that are not those of the grid");
    }
    array.stored = &stored;
    array.chunks.emplace();
    return Status();
  }

  Status AddArray(size_t leaf_index, std::string name, const SaveArgs& args) {
    const FlatLeaf& leaf = plan_.leaves[leaf_index];
    PlannedArray array;
    Result<ArraySource> source = ArraySource::Of(*leaf.leaf, part_.is_partial);
    if (!source.ok()) return source.status().WithContext("leaf " + name);
    array.source = std::move(source).value();
    HF_RETURN_IF_ERROR(CheckStorable(array.source.dtype()));
    array.name = std::move(name);
    array.leaf = leaf_index;
    if (const StoredChunks* stored = array.source.stored()) {
      HF_RETURN_IF_ERROR(
          AddStored(*stored, array).WithContext("leaf " + array.name));
      return Add(std::move(array));
    }
    LayoutKey key;
    key.dtype = args.dtype.value_or(array.source.dtype());
    HF_RETURN_IF_ERROR(CheckCast(array.source.dtype(), key.dtype));
    key.shape = array.source.shape();
    HF_ASSIGN_OR_RETURN(key.write_shape, WriteShape(leaf, key.shape));
    key.chunk_byte_size = args.chunk_byte_size;
    key.shard_axes = args.shard_axes;
    key.write_chunk_shape = args.write_chunk_shape;
    key.read_chunk_shape = args.read_chunk_shape;
    HF_ASSIGN_OR_RETURN(array.layout, maker_.Get(std::move(key)));
    array.needs_scratch =
        array.layout->dtype() != array.source.dtype() ||
        !array.source.FindsAllChunks(array.layout->array->grid);
    array.needs_packing = NeedsPacking(array);
    array.has_metadata = part_.is_primary;
    const Status chosen = ChooseChunks(array);
    if (!chosen.ok()) return chosen.WithContext("leaf " + array.name);
    return Add(std::move(array));
  }

  Status Add(PlannedArray array) {
    plan_.has_jax_arrays |=
        plan_.leaves[array.leaf].value_type == kValueTypeJaxArray;
    plan_.arrays.push_back(std::move(array));
    return Status();
  }

  const SaveOptions& options_;
  const PlanPart part_;
  const SaveArgs no_args_;
  LayoutMaker maker_;
  SavePlan& plan_;
  size_t args_used_ = 0;
};

// Divides the deferred arrays. Each process gets the run of chunks that follows
// the previous process's run.
Status DivideDeferred(const PlanPart& part, SavePlan& plan) {
  if (part.count == 1 && part.is_primary) return Status();
  std::vector<ArrayChunks> deferred;
  std::vector<PlannedArray*> arrays;
  for (PlannedArray& array : plan.arrays) {
    if (!array.source.is_divided() || array.stored != nullptr) continue;
    array.chunks.emplace();
    arrays.push_back(&array);
    deferred.push_back(
        {.chunk_count = static_cast<int64_t>(array.layout->chunk_count),
         .chunk_bytes =
             static_cast<int64_t>(array.layout->array->chunk_bytes)});
  }
  if (part.count == 1) return Status();  // the primary has all of them
  HF_ASSIGN_OR_RETURN(const std::vector<ChunkRange> mine,
                      ChunksOfRank(deferred, part.index, part.count));
  for (const ChunkRange& range : mine) {
    std::vector<uint64_t>& chunks = *arrays[range.array]->chunks;
    chunks.resize(range.end - range.begin);
    std::iota(chunks.begin(), chunks.end(), uint64_t(range.begin));
  }
  return Status();
}

uint64_t BytesHere(const PlannedArray& array) {
  const uint64_t element_bytes = DTypeBytes(array.layout->dtype());
  if (!array.chunks) {
    return ElementCount(array.source.shape()) * element_bytes;
  }
  const ChunkGrid& grid = array.layout->array->grid;
  uint64_t element_count = 0;
  for (const uint64_t chunk : *array.chunks) {
    element_count += ElementCount(grid.ChunkBox(grid.ChunkIndex(chunk)).shape);
  }
  return element_count * element_bytes;
}

// Divides the values into batches. A chunk larger than a batch is a batch by
// itself.
void MakeBatches(SavePlan& plan) {
  PlannedBatch batch;
  const auto close = [&](size_t next_array, uint64_t next_value) {
    if (batch.last > batch.first) plan.batches.push_back(batch);
    batch = {next_value, next_value, next_array, 0, 0};
  };
  for (size_t i = 0; i < plan.arrays.size(); ++i) {
    PlannedArray& array = plan.arrays[i];
    array.first_value = plan.value_count;
    plan.value_count += array.value_count();
    plan.chunk_count += array.chunk_count();
    plan.decoded_bytes += BytesHere(array);
    const uint64_t chunk_bytes = array.layout->array->chunk_bytes;
    const uint64_t metadata_bytes = array.layout->metadata_text.size();
    for (uint64_t value = array.first_value; value < plan.value_count;
         ++value) {
      const uint64_t byte_count =
          value < array.first_chunk_value() ? metadata_bytes : chunk_bytes;
      if (batch.byte_count + byte_count > kBatchBytesTarget) close(i, value);
      batch.last = value + 1;
      batch.byte_count += byte_count;
      const bool is_chunk = value >= array.first_chunk_value();
      const int copies = 1 + (is_chunk && array.needs_scratch) +
                         (is_chunk && array.needs_packing);
      batch.held_bytes += copies * byte_count;
    }
  }
  close(0, 0);
}

}  // namespace

bool IsExternal(const FlatLeaf& leaf) {
  return leaf.leaf->is_leaf() && leaf.leaf->leaf_kind() == LeafKind::kExternal;
}

size_t ArrayOfValue(const SavePlan& plan, uint64_t index) {
  const auto after =
      std::upper_bound(plan.arrays.begin(), plan.arrays.end(), index,
                       [](uint64_t value, const PlannedArray& array) {
                         return value < array.first_value;
                       });
  return static_cast<size_t>(after - plan.arrays.begin()) - 1;
}

Result<SavePlan> MakeSavePlan(const Tree& tree, const SaveOptions& options,
                              const PlanPart& part) {
  const PhaseScope scope(Phase::kPlan);
  HF_RETURN_IF_ERROR(CheckOptions(options));
  SavePlan plan;
  plan.options = std::make_shared<const SaveOptions>(WithSources(options));
  const int default_format = options.format == Format::kOrbaxV1 ? 3 : 2;
  plan.zarr_format =
      options.zarr_format == 0 ? default_format : options.zarr_format;
  if (tree.is_empty_container()) {
    return InvalidArgumentError("Found empty item.");
  }
  plan.tree = &tree;
  plan.part = part;
  HF_ASSIGN_OR_RETURN(plan.leaves,
                      Flatten(tree, {options.support_rich_types ||
                                     !options.value_metadata_tree.empty()}));
  HF_RETURN_IF_ERROR(CheckParamNames(plan.leaves));
  ArrayPlanner planner(options, part, plan);
  for (size_t i = 0; i < plan.leaves.size(); ++i) {
    HF_RETURN_IF_ERROR(planner.AddLeaf(i));
  }
  HF_RETURN_IF_ERROR(planner.CheckArgsUsed());
  std::sort(plan.arrays.begin(), plan.arrays.end(),
            [](const PlannedArray& a, const PlannedArray& b) {
              return a.name < b.name;
            });
  HF_RETURN_IF_ERROR(DivideDeferred(part, plan));
  MakeBatches(plan);
  if (options.also != nullptr) {
    HF_ASSIGN_OR_RETURN(plan.also, options.also->Plan(plan));
  }
  return plan;
}

}  // namespace holdfast
