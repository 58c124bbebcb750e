#include "checkpoint/save_plan.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "base/status_macros.h"
#include "checkpoint/format/directory_names.h"
#include "checkpoint/format/subchunking.h"
#include "tree/value_type.h"

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

bool HasArrayData(const FlatLeaf& leaf) {
  return leaf.leaf->is_leaf() && (leaf.leaf->leaf_kind() == LeafKind::kArray ||
                                  leaf.leaf->leaf_kind() == LeafKind::kScalar);
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
    case LeafKind::kArray:
      if (leaf.leaf->array().element_count() == 0) {
        return InvalidArgumentError("Cannot save arrays with zero size: " +
                                    ParamInfoText(leaf));
      }
      return Status();
    default:
      return Status();
  }
}

ConstArrayView ViewOfLeaf(const Tree& leaf) {
  if (leaf.leaf_kind() == LeafKind::kArray) return leaf.array().view();
  const Scalar& scalar = leaf.scalar();
  return {scalar.dtype, scalar.bytes.data(), {}, {}};
}

zarr::Compression ZarrCompression(Compression compression) {
  switch (compression) {
    case Compression::kNone:
      return zarr::Compression::kNone;
    case Compression::kFast:
      return zarr::Compression::kFast;
    case Compression::kZstd:
      break;
  }
  return zarr::Compression::kZstd;
}

// Makes the layout of each dtype and shape once.
class LayoutMaker {
 public:
  LayoutMaker(const SaveOptions& options, int zarr_format)
      : options_(options), zarr_format_(zarr_format) {}

  Result<std::shared_ptr<const SaveLayout>> Get(DType dtype,
                                                const Shape& shape) {
    auto& layout = layouts_[{dtype, shape}];
    if (layout == nullptr) {
      HF_ASSIGN_OR_RETURN(layout, Make(dtype, shape));
    }
    return layout;
  }

 private:
  // A chunk never exceeds the data file it would go to, as in Orbax.
  Result<Shape> ChunkShape(DType dtype, const Shape& shape) const {
    const int64_t file_bytes = options_.ocdbt_target_data_file_bytes;
    uint64_t target_bytes = options_.chunk_bytes_target;
    const uint64_t array_bytes = ElementCount(shape) * DTypeBytes(dtype);
    if (options_.use_ocdbt && file_bytes > 0) {
      const uint64_t file_bytes_max = file_bytes;
      if (target_bytes == 0 && array_bytes > file_bytes_max) {
        return ChooseChunkShape(shape, shape, dtype, file_bytes, {});
      }
      if (target_bytes != 0)
        target_bytes = std::min(target_bytes, file_bytes_max);
    }
    if (target_bytes == 0) return shape;
    return ChooseRowChunks(shape, dtype, target_bytes);
  }

  Result<std::shared_ptr<const SaveLayout>> Make(DType dtype,
                                                 const Shape& shape) const {
    if (dtype == DType::kUint2 || dtype == DType::kUint4) {
      return UnsupportedTypeError(DTypeName(dtype));
    }
    HF_ASSIGN_OR_RETURN(const Shape chunk_shape, ChunkShape(dtype, shape));
    const zarr::Compression compression = ZarrCompression(options_.compression);
    const zarr::ArrayMetadata metadata =
        zarr_format_ == 3
            ? zarr::OrbaxV3(shape, dtype, chunk_shape, compression)
            : zarr::OrbaxV2(shape, dtype, chunk_shape, compression);
    auto layout = std::make_shared<SaveLayout>();
    HF_ASSIGN_OR_RETURN(layout->metadata_text,
                        zarr::SerializeMetadata(metadata));
    HF_ASSIGN_OR_RETURN(layout->array,
                        MakeArrayLayout(metadata, MissingChunks::kRefuse));
    layout->chunk_count = layout->array->grid.ChunkCount();
    return std::shared_ptr<const SaveLayout>(std::move(layout));
  }

  const SaveOptions& options_;
  const int zarr_format_;
  std::map<std::pair<DType, Shape>, std::shared_ptr<const SaveLayout>> layouts_;
};

Status CheckOptions(const SaveOptions& options) {
  if (options.zarr_format != 0 && options.zarr_format != 2 &&
      options.zarr_format != 3) {
    return InvalidArgumentError("zarr_format must be 2 or 3 (got " +
                                std::to_string(options.zarr_format) + ")");
  }
  if (options.ocdbt_target_data_file_bytes < 0) {
    return InvalidArgumentError(
        "OCDBT target_data_file_size must be >= 0, where 0 means no limit; "
        "got " +
        std::to_string(options.ocdbt_target_data_file_bytes));
  }
  return Status();
}

Status AddArray(size_t leaf_index, LayoutMaker& maker, SavePlan& plan) {
  const FlatLeaf& leaf = plan.leaves[leaf_index];
  PlannedArray array;
  array.name = ParamName(leaf.path);
  array.leaf = leaf_index;
  array.view = ViewOfLeaf(*leaf.leaf);
  Result<std::shared_ptr<const SaveLayout>> layout =
      maker.Get(array.view.dtype, array.view.shape);
  if (!layout.ok()) return layout.status();
  array.layout = *layout;
  plan.decoded_bytes +=
      ElementCount(array.view.shape) * DTypeBytes(array.view.dtype);
  plan.has_jax_arrays |= leaf.value_type == kValueTypeJaxArray;
  plan.arrays.push_back(std::move(array));
  return Status();
}

// Every chunk of more than a batch goes alone.
void MakeBatches(SavePlan& plan) {
  PlannedBatch batch;
  const auto close = [&](size_t next_array, uint64_t next_value) {
    if (batch.last > batch.first) plan.batches.push_back(batch);
    batch = {next_value, next_value, next_array, 0};
  };
  for (size_t i = 0; i < plan.arrays.size(); ++i) {
    PlannedArray& array = plan.arrays[i];
    array.first_value = plan.value_count;
    plan.value_count += 1 + array.layout->chunk_count;
    const uint64_t chunk_bytes = array.layout->array->chunk_bytes;
    const uint64_t metadata_bytes = array.layout->metadata_text.size();
    for (uint64_t value = array.first_value; value < plan.value_count;
         ++value) {
      const uint64_t byte_count =
          value == array.first_value ? metadata_bytes : chunk_bytes;
      if (batch.byte_count + byte_count > kBatchBytesTarget) close(i, value);
      batch.last = value + 1;
      batch.byte_count += byte_count;
    }
  }
  close(0, 0);
}

}  // namespace

Result<SavePlan> MakeSavePlan(const Tree& tree, const SaveOptions& options) {
  HF_RETURN_IF_ERROR(CheckOptions(options));
  SavePlan plan;
  const int default_format = options.format == Format::kOrbaxV1 ? 3 : 2;
  plan.zarr_format =
      options.zarr_format == 0 ? default_format : options.zarr_format;
  if (tree.is_empty_container()) {
    return InvalidArgumentError("Found empty item.");
  }
  HF_ASSIGN_OR_RETURN(plan.leaves, Flatten(tree));
  HF_RETURN_IF_ERROR(CheckParamNames(plan.leaves));
  LayoutMaker maker(options, plan.zarr_format);
  for (size_t i = 0; i < plan.leaves.size(); ++i) {
    HF_RETURN_IF_ERROR(CheckLeaf(plan.leaves[i]));
    if (!HasArrayData(plan.leaves[i])) continue;
    HF_RETURN_IF_ERROR(AddArray(i, maker, plan));
    if (!options.use_ocdbt) {
      HF_RETURN_IF_ERROR(CheckDirectoryParamName(plan.arrays.back().name));
    }
  }
  std::sort(plan.arrays.begin(), plan.arrays.end(),
            [](const PlannedArray& a, const PlannedArray& b) {
              return a.name < b.name;
            });
  MakeBatches(plan);
  return plan;
}

}  // namespace holdfast
