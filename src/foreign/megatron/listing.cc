#include <algorithm>
#include <mutex>

#include "foreign/megatron/error.h"
#include "foreign/megatron/files.h"
#include "foreign/megatron/opened.h"
#include "foreign/megatron/zarr_array.h"
#include "ground/base/executor.h"
#include "ground/base/status_macros.h"
#include "ground/base/utf8.h"
#include "stores/place/directory_ops.h"

namespace holdfast::megatron {
namespace {

// The maximum depth of "/" keys in a recursive listing.
constexpr int kKeyDepthMax = 64;

struct Listed {
  std::vector<std::string> arrays;   // keys
  std::vector<std::string> objects;  // "<key>/shard_….pt" without the ".pt"
  std::vector<std::string> locks;    // "<key>.sync"
};

// Lists a directory tree; examines each directory entry once.
class KeyLister {
 public:
  KeyLister(const Place& root, bool recursive)
      : root_(root), recursive_(recursive) {}

  Result<Listed> List() {
    HF_RETURN_IF_ERROR(ListBelow("", 0));
    return std::move(listed_);
  }

 private:
  Status ListBelow(const std::string& parent, int depth) {
    HF_ASSIGN_OR_RETURN(const std::vector<std::string> names,
                        ListDirectory(root_ / parent));
    for (const std::string& name : names) {
      const std::string key = parent.empty() ? name : parent + "/" + name;
      HF_ASSIGN_OR_RETURN(const bool is_directory,
                          LeadsToDirectory(root_ / key));
      if (is_directory) HF_RETURN_IF_ERROR(Look(key, depth));
    }
    return Status();
  }

  Status Look(const std::string& key, int depth) {
    HF_ASSIGN_OR_RETURN(const bool is_array,
                        LeadsToAnything(root_ / key / ".zarray"));
    if (is_array) {
      (key.ends_with(".sync") ? listed_.locks : listed_.arrays).push_back(key);
    }
    HF_ASSIGN_OR_RETURN(const bool has_objects, AddObjectFiles(key));
    if (is_array || has_objects || !recursive_ || depth >= kKeyDepthMax) {
      return Status();
    }
    return ListBelow(key, depth + 1);
  }

  // Adds the object files of a key. A key may have both an array and objects.
  Result<bool> AddObjectFiles(const std::string& key) {
    HF_ASSIGN_OR_RETURN(const std::vector<std::string> names,
                        ListDirectory(root_ / key));
    bool has_objects = false;
    for (const std::string& name : names) {
      if (!name.starts_with("shard_") || !name.ends_with(".pt")) continue;
      has_objects = true;
      listed_.objects.push_back(key + "/" + name.substr(0, name.size() - 3));
    }
    return has_objects;
  }

  const Place root_;
  const bool recursive_;
  Listed listed_;
};

ShardedTensor WholeTensor(const std::string& key, const Shape& shape,
                          DType dtype) {
  ShardedTensor tensor;
  tensor.key = key;
  tensor.dtype = dtype;
  tensor.local_shape = shape;
  tensor.global_shape = shape;
  tensor.global_offset = Shape(shape.size(), 0);
  tensor.axis_fragmentations = Shape(shape.size(), 1);
  return tensor;
}

Result<TensorMetadata> ListTensors(const std::vector<std::string>& keys,
                                   const std::string& root,
                                   const GetShapeDTypeFn& get_shape_dtype,
                                   int thread_count) {
  std::vector<ShardedTensor> tensors(keys.size());
  Executor executor(thread_count);
  HF_RETURN_IF_ERROR(
      executor.ParallelFor(keys.size(), [&](size_t i, int) -> Status {
        HF_ASSIGN_OR_RETURN(const auto shape_dtype,
                            get_shape_dtype(JoinPath(root, keys[i])));
        tensors[i] =
            WholeTensor(keys[i], shape_dtype.first, shape_dtype.second);
        return Status();
      }));
  TensorMetadata metadata;
  for (ShardedTensor& tensor : tensors) {
    metadata.emplace(tensor.key, std::move(tensor));
  }
  return metadata;
}

// Adds the objects of a directory. Names without the last extent (written
// before 0.8) get it from the largest offset, as in Megatron.
Status AddObjects(std::vector<ShardedObject> objects,
                  ObjectMetadata& metadata) {
  const bool is_cut = !objects.empty() && objects[0].global_shape.back() < 0;
  int64_t last = 0;
  for (const ShardedObject& object : objects) {
    last = std::max(last, object.global_offset.back());
  }
  for (ShardedObject& object : objects) {
    if (is_cut) object.global_shape.back() = last + 1;
    std::string name = object.UniqueKey();
    metadata.insert_or_assign(std::move(name), std::move(object));
  }
  return Status();
}

// Parses a unique key. If `recursive` is set, also parses keys with '/', which
// EmptyFromUniqueKey does not support.
Result<ShardedObject> ParseShardedObject(const std::string& unique_key,
                                         bool recursive) {
  const size_t slash = unique_key.rfind('/');
  const size_t first = unique_key.find('/');
  if (!recursive || slash == first) {
    return ShardedObject::EmptyFromUniqueKey(unique_key);
  }
  HF_ASSIGN_OR_RETURN(
      ShardedObject object,
      ShardedObject::EmptyFromUniqueKey("k" + unique_key.substr(slash)));
  object.key = unique_key.substr(0, slash);
  return object;
}

Result<ObjectMetadata> ListObjects(const std::vector<std::string>& names,
                                   bool recursive) {
  ObjectMetadata metadata;
  std::vector<ShardedObject> same_key;
  for (const std::string& name : names) {
    HF_ASSIGN_OR_RETURN(ShardedObject object,
                        ParseShardedObject(name, recursive));
    if (!same_key.empty() && same_key.back().key != object.key) {
      HF_RETURN_IF_ERROR(AddObjects(std::move(same_key), metadata));
      same_key.clear();
    }
    same_key.push_back(std::move(object));
  }
  HF_RETURN_IF_ERROR(AddObjects(std::move(same_key), metadata));
  return metadata;
}

GetShapeDTypeFn StoredShapeDType(const std::string& root,
                                 bool allow_any_dtype) {
  const auto store = StoreForOneRead(Place(root));
  const size_t skip = JoinPath(root, "").size();
  return [store, skip, allow_any_dtype](
             const std::string& path) -> Result<std::pair<Shape, DType>> {
    HF_ASSIGN_OR_RETURN(const ArrayState array,
                        OpenArray(store, std::string_view(path).substr(skip),
                                  LoadMode::kTensorStore));
    const zarr::ArrayMetadata& metadata = array->metadata();
    if (!allow_any_dtype && !TorchToNumpyDType(metadata.dtype).ok()) {
      HF_RETURN_IF_ERROR(NumpyToTorchDType(DTypeName(metadata.dtype)).status());
    }
    return std::make_pair(metadata.shape, metadata.dtype);
  };
}

}  // namespace

Result<CheckpointFiles> ListCheckpoint(const Place& place) {
  HF_ASSIGN_OR_RETURN(Listed listed, KeyLister(place, true).List());
  CheckpointFiles files;
  files.locks = std::move(listed.locks);
  for (std::string& key : listed.arrays) {
    (IsValidUtf8(key) ? files.arrays : files.bad_names)
        .push_back(std::move(key));
  }
  std::vector<std::string> names;
  for (std::string& name : listed.objects) {
    const bool is_good =
        IsValidUtf8(name) && ParseShardedObject(name, true).ok();
    (is_good ? names : files.bad_objects).push_back(std::move(name));
  }
  HF_ASSIGN_OR_RETURN(files.objects, ListObjects(names, true));
  HF_ASSIGN_OR_RETURN(files.has_common, LeadsToAnything(place / "common.pt"));
  return files;
}

Result<TensorMetadata> LoadZarrBasedShardedMetadata(
    const std::string& checkpoint_dir, const GetShapeDTypeFn& get_shape_dtype,
    const ListOptions& options) {
  HF_ASSIGN_OR_RETURN(
      const Listed listed,
      KeyLister(Place(checkpoint_dir), options.recursive).List());
  return ListTensors(listed.arrays, checkpoint_dir, get_shape_dtype,
                     options.threads);
}

Result<ShardedMetadata> LoadShardedMetadata(const std::string& checkpoint_dir,
                                            const ListOptions& options) {
  HF_ASSIGN_OR_RETURN(
      const Listed listed,
      KeyLister(Place(checkpoint_dir), options.recursive).List());
  ShardedMetadata metadata;
  HF_ASSIGN_OR_RETURN(
      metadata.tensors,
      ListTensors(listed.arrays, checkpoint_dir,
                  StoredShapeDType(checkpoint_dir, options.allow_any_dtype),
                  options.threads));
  HF_ASSIGN_OR_RETURN(metadata.objects,
                      ListObjects(listed.objects, options.recursive));
  return metadata;
}

Result<TensorMetadata> ZarrLoadShardedStrategy::LoadTensorsMetadata(
    const std::string& checkpoint_dir) const {
  return LoadZarrBasedShardedMetadata(checkpoint_dir,
                                      StoredShapeDType(checkpoint_dir, false));
}

}  // namespace holdfast::megatron
