#include "foreign/megatron/error.h"
#include "foreign/megatron/files.h"
#include "foreign/megatron/zarr_array.h"
#include "ground/base/status_macros.h"
#include "holdfast/megatron/zarr.h"
#include "stores/place/place.h"

namespace holdfast::megatron {
namespace {

constexpr size_t kTorchFileBytesMax = size_t{1} << 40;

// Returns the file name that releases before 0.8 used: with_suffix removed
// everything after the last dot.
std::string OldName(const std::string& unique_key) {
  const size_t slash = unique_key.rfind('/');
  const size_t dot = unique_key.rfind('.');
  const bool has_dot =
      dot != unique_key.npos && (slash == unique_key.npos || dot > slash + 1);
  return (has_dot ? unique_key.substr(0, dot) : unique_key) + ".pt";
}

}  // namespace

Result<std::string> ReadCommon(const Place& checkpoint) {
  const Place file = checkpoint / "common.pt";
  Result<std::string> bytes = ReadWholeFile(file, kTorchFileBytesMax);
  if (bytes.status().code() != StatusCode::kNotFound) return bytes;
  return CheckpointingError(StatusCode::kNotFound, "COMMON_NOT_FOUND",
                            "Common file " + file.path() + " does not exist");
}

Result<std::string> ReadCommonFile(const std::string& checkpoint_dir) {
  return ReadCommon(Place(checkpoint_dir));
}

Status WriteCommonFile(const std::string& checkpoint_dir,
                       std::string_view torch_file, bool sync) {
  return PutFile(Place(checkpoint_dir) / "common.pt", torch_file, sync);
}

Result<std::string> ReadObject(const Place& checkpoint,
                               const ShardedObject& object) {
  HF_RETURN_IF_ERROR(CheckKeyIsInside(object.key));
  const std::string unique_key = object.UniqueKey();
  const std::shared_ptr<Store> store = StoreForOneRead(checkpoint);
  for (const std::string& name : {unique_key + ".pt", OldName(unique_key)}) {
    const Result<Bytes> bytes = store->Read(name);
    if (bytes.ok()) return bytes->ToString();
    if (bytes.status().code() != StatusCode::kNotFound) return bytes.status();
  }
  return CheckpointingError(StatusCode::kNotFound, "OBJECT_NOT_FOUND",
                            "Object shard " +
                                (checkpoint / (unique_key + ".pt")).path() +
                                " not found");
}

Result<std::string> ReadObjectFile(const std::string& checkpoint_dir,
                                   const ShardedObject& object) {
  return ReadObject(Place(checkpoint_dir), object);
}

Status WriteObjectFiles(const std::string& checkpoint_dir,
                        std::span<const ShardedObject> objects, bool sync) {
  const std::shared_ptr<Store> store = Place(checkpoint_dir).OpenStore();
  for (const ShardedObject& object : objects) {
    if (!IsMainReplica(object.replica_id)) continue;
    HF_RETURN_IF_ERROR(CheckKeyIsStorable(object.key));
    HF_RETURN_IF_ERROR(store->Write(object.UniqueKey() + ".pt", object.data,
                                    {.sync = sync, .atomic = false}));
  }
  return sync ? store->SyncNames() : Status();
}

}  // namespace holdfast::megatron
