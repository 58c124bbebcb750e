#include "foreign/megatron/zarr_array.h"

#include <algorithm>

#include "foreign/megatron/error.h"
#include "foreign/megatron/files.h"
#include "foreign/megatron/python_text.h"
#include "formats/zarr/format/dtype_names.h"
#include "ground/base/status_macros.h"
#include "ground/base/utf8.h"
#include "stores/place/place.h"

namespace holdfast::megatron {
namespace {

constexpr std::string_view kMetadataName = ".zarray";
constexpr uint64_t kMetadataBytesMax = uint64_t{1} << 20;

Status Refused(std::string_view key, std::string_view why) {
  return CheckpointingError(
      StatusCode::kInvalidArgument, "REFUSED_KEY",
      "Key " + PythonRepr(key) + " cannot be stored: " + std::string(why));
}

Status NotFoundIn(LoadMode mode, const std::string& path) {
  std::string text = "Array " + path + " not found";
  if (mode == LoadMode::kTensorStore) {
    text = "Array " + path +
           " could not be loaded. Error: NOT_FOUND: Error opening \"zarr\" "
           "driver: Metadata at local file \"" +
           JoinPath(path, kMetadataName) + "\" does not exist";
  }
  return CheckpointingError(StatusCode::kNotFound, "ARRAY_NOT_FOUND", text);
}

Status InvalidMetadata(LoadMode mode, const std::string& path,
                       const Status& status) {
  if (mode == LoadMode::kZarr) {
    return MakeError(
        StatusCode::kFailedPrecondition, "ARRAY_METADATA_INVALID",
        status.message().starts_with("Invalid JSON") ? "JSONDecodeError"
                                                     : "ValueError",
        std::string(status.message()) + " in " + JoinPath(path, kMetadataName));
  }
  return CheckpointingError(
      StatusCode::kFailedPrecondition, "ARRAY_METADATA_INVALID",
      "Array " + path +
          " could not be loaded. Error: FAILED_PRECONDITION: Error opening "
          "\"zarr\" driver: Error reading local file \"" +
          JoinPath(path, kMetadataName) +
          "\": " + std::string(status.message()));
}

std::string PathOf(Store& store, std::string_view prefix) {
  std::string path = store.Describe(prefix);
  if (path.size() > 1 && path.back() == '/') path.pop_back();
  return path;
}

Status CheckNoEmptyChunks(const ShardedTensor& tensor, const Shape& chunks) {
  for (size_t i = 0; i < chunks.size(); ++i) {
    if (chunks[i] > 0) continue;
    return MakeError(
        StatusCode::kInvalidArgument, "EMPTY_AXIS", "ZeroDivisionError",
        "division by zero: axis " + std::to_string(i) +
            " has no elements for a chunk in " + tensor.ToString());
  }
  return Status();
}

// Formats a list as json.dumps(indent=4) does.
std::string ListText(const Shape& values) {
  if (values.empty()) return "[]";
  std::string text;
  for (const int64_t value : values) {
    text +=
        (text.empty() ? "[\n        " : ",\n        ") + std::to_string(value);
  }
  return text + "\n    ]";
}

std::string MetadataText(const Shape& shape, const Shape& chunks,
                         std::string_view dtype_name) {
  return "{\n    \"chunks\": " + ListText(chunks) +
         ",\n    \"compressor\": null,\n    \"dtype\": \"" +
         std::string(dtype_name) +
         "\",\n    \"fill_value\": null,\n    \"filters\": null,\n    "
         "\"order\": \"C\",\n    \"shape\": " +
         ListText(shape) + ",\n    \"zarr_format\": 2\n}";
}

}  // namespace

const std::string& ZarrArray::path() const { return state_->path; }
const Shape& ZarrArray::shape() const { return state_->metadata().shape; }
const Shape& ZarrArray::chunks() const {
  return state_->metadata().chunk_shape;
}
DType ZarrArray::dtype() const { return state_->metadata().dtype; }
const std::string& ZarrArray::dtype_name() const { return state_->dtype_name; }

Status CheckKeyIsInside(std::string_view key) {
  if (key.empty()) return Refused(key, "it is empty");
  if (key.front() == '/') return Refused(key, "it is an absolute path");
  if (key.find('\0') != key.npos) return Refused(key, "it has a NUL byte");
  for (size_t at = 0; at <= key.size();) {
    const size_t end = std::min(key.find('/', at), key.size());
    const std::string_view part = key.substr(at, end - at);
    if (part.empty()) return Refused(key, "a part of its path is empty");
    if (part == "." || part == "..") {
      return Refused(key, "\"" + std::string(part) + "\" in its path");
    }
    at = end + 1;
  }
  return Status();
}

Status CheckKeyIsStorable(std::string_view key) {
  HF_RETURN_IF_ERROR(CheckKeyIsInside(key));
  if (!IsValidUtf8(key)) return Refused(key, "it is not UTF-8");
  if (key == "metadata.json" || key == "common.pt") {
    return Refused(key, "a file of every checkpoint has that name");
  }
  for (const std::string_view ending : {".zip", ".n5", ".sync"}) {
    if (key.ends_with(ending)) {
      return Refused(key, "zarr-python takes names that end in \"" +
                              std::string(ending) +
                              "\" for something else than a directory of "
                              "chunks");
    }
  }
  const Status status = CheckKey(std::string(key) + "/.zarray");
  return status.ok() ? Status() : Refused(key, status.message());
}

Result<ArrayState> OpenArray(const std::shared_ptr<Store>& store,
                             std::string_view key, LoadMode mode) {
  auto state = std::make_shared<ZarrArray::State>();
  state->store = store;
  if (!key.empty()) {
    HF_RETURN_IF_ERROR(CheckKeyIsInside(key));
    state->prefix = std::string(key) + "/";
  }
  state->path = PathOf(*store, state->prefix);
  const std::string name = state->prefix + std::string(kMetadataName);
  const Result<Bytes> text = store->Read(name);
  if (text.status().code() == StatusCode::kNotFound) {
    return NotFoundIn(mode, state->path);
  }
  if (!text.ok()) return text.status();
  if (text->size() > kMetadataBytesMax) {
    return InvalidMetadata(mode, state->path,
                           FailedPreconditionError("Invalid JSON: too long"));
  }
  const Result<zarr::ArrayMetadata> metadata = zarr::ParseV2(text->view());
  if (!metadata.ok()) {
    return InvalidMetadata(mode, state->path, metadata.status());
  }
  HF_ASSIGN_OR_RETURN(state->layout,
                      MakeArrayLayout(*metadata, MissingChunks::kFill));
  state->mode = mode;
  state->dtype_name =
      zarr::DTypeToV2({metadata->dtype, metadata->endian}).value_or("");
  return ArrayState(std::move(state));
}

Result<ZarrArray> OpenZarrArrayVerbose(const std::string& path, LoadMode mode) {
  const auto store = Place(path).OpenStore();
  HF_ASSIGN_OR_RETURN(ArrayState state, OpenArray(store, "", mode));
  return ZarrArray(std::move(state));
}

bool ShouldCreateArray(const ShardedTensor& tensor, bool store_zero_d) {
  const auto is_zero = [](int64_t offset) { return offset == 0; };
  // In Python, set(()) == {0} is false, so Megatron never creates the array of
  // a 0-d tensor.
  if (tensor.global_offset.empty() && !store_zero_d) return false;
  return IsMainReplica(tensor.replica_id) &&
         std::all_of(tensor.global_offset.begin(), tensor.global_offset.end(),
                     is_zero) &&
         (!tensor.flattened_range || tensor.flattened_range->start == 0);
}

Result<NewArray> PlanArray(std::string_view key, DType dtype,
                           const Shape& shape, const Shape& chunks) {
  HF_RETURN_IF_ERROR(CheckKeyIsStorable(key));
  NewArray array;
  HF_ASSIGN_OR_RETURN(array.dtype_name, TorchToNumpyDType(dtype));
  array.metadata.shape = shape;
  array.metadata.chunk_shape = chunks;
  array.metadata.dtype = dtype;
  array.metadata.fill_element.assign(DTypeBytes(dtype), '\0');
  array.metadata.fill_is_null = true;
  array.text = MetadataText(shape, chunks, array.dtype_name);
  return array;
}

Result<NewArray> PlanArray(const ShardedTensor& tensor) {
  HF_RETURN_IF_ERROR(CheckKeyIsStorable(tensor.key));
  HF_RETURN_IF_ERROR(tensor.Check());
  HF_RETURN_IF_ERROR(TorchToNumpyDType(tensor.dtype).status());
  HF_ASSIGN_OR_RETURN(const Shape chunks, tensor.MaxAllowedChunks());
  return PlanArray(tensor.key, tensor.dtype, tensor.global_shape, chunks);
}

Result<ArrayState> AssumeArray(const std::shared_ptr<Store>& store,
                               std::string_view key, const NewArray& array) {
  auto state = std::make_shared<ZarrArray::State>();
  state->store = store;
  state->prefix = std::string(key) + "/";
  state->path = PathOf(*store, state->prefix);
  state->dtype_name = array.dtype_name;
  HF_ASSIGN_OR_RETURN(state->layout,
                      MakeArrayLayout(array.metadata, MissingChunks::kFill));
  return ArrayState(std::move(state));
}

Result<ArrayState> CreateArray(const std::shared_ptr<Store>& store,
                               const ShardedTensor& tensor, bool sync) {
  HF_ASSIGN_OR_RETURN(const NewArray array, PlanArray(tensor));
  const std::string prefix = tensor.key + "/";
  const Status status =
      store->Write(prefix + std::string(kMetadataName), array.text,
                   {.sync = sync, .atomic = false, .must_create = true});
  if (status.code() == StatusCode::kAlreadyExists) {
    return CheckpointingError(
        StatusCode::kAlreadyExists, "ARRAY_EXISTS",
        "Array " + PathOf(*store, prefix) + " already exists");
  }
  HF_RETURN_IF_ERROR(status);
  // Checked here because Megatron fails at this point, too. The .zarray that
  // was written is not a checkpoint, because metadata.json does not exist.
  HF_RETURN_IF_ERROR(CheckNoEmptyChunks(tensor, array.metadata.chunk_shape));
  return AssumeArray(store, tensor.key, array);
}

}  // namespace holdfast::megatron
