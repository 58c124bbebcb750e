// Specs say in TensorStore's JSON what to read or write, where and how. The
// builders return the same members as Orbax's tensorstore_utils. OpenSpec and
// OpenKvStore (open_spec.h) open the arrays and key-value stores that specs
// describe.
//
//   auto spec = ArrayReadSpec::Make("/ckpt/7/state", "params.w",
//                                   {.use_zarr3 = false, .use_ocdbt = true});
//   auto array = OpenSpec(spec->json());
//
// JSON is passed as compact text with members in Orbax's order. Orbax's keyword
// arguments are members of option structs and have the same names.
//
// Thread-safety: values and pure functions, except AssertParameterFilesExist,
// which accesses the disk, and PrintTsDebugData. Units: bytes; shapes in
// elements.
// Source: orbax-checkpoint 0.12.8, _src/serialization/tensorstore_utils.py.
// Errors: InvalidArgument with Orbax's messages where it raises ValueError;
// NotFound where it raises FileNotFoundError.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "holdfast/dtype.h"
#include "holdfast/export.h"
#include "holdfast/options.h"
#include "holdfast/orbax/type_handlers.h"
#include "holdfast/restore_args.h"
#include "holdfast/status.h"
#include "holdfast/tensor.h"

namespace holdfast HOLDFAST_EXPORT {

inline constexpr std::string_view kFileDriver = "file";
inline constexpr std::string_view kDefaultDriver = kFileDriver;
inline constexpr std::string_view kProcessSubdirPrefix = "ocdbt.process_";
inline constexpr std::string_view kReplicaSubdirSuffix = "replica_";
inline constexpr std::string_view kZarrVer2 = "zarr";
inline constexpr std::string_view kZarrVer3 = "zarr3";
// Chunks that equal the fill value are stored, too: so if a chunk is missing,
// it is lost.
inline constexpr bool kStoreArrayDataEqualToFillValue = true;

// --- Key-value stores.

// The name of a process's subdirectory: "ocdbt.process_<id>", or
// "ocdbt.process_replica_<id>".
struct OcdbtProcessSpec {
  std::string process_id;  // [A-Za-z0-9]+
  bool use_replica_suffix = false;

  static Result<OcdbtProcessSpec> Make(std::string process_id,
                                       bool use_replica_suffix = false);
  static Result<OcdbtProcessSpec> Parse(std::string_view text);
  std::string ToString() const;
};

enum class OcdbtWriteMode : uint8_t { kWrite, kMerge, kCommitTemporary };

struct OcdbtKvStoreWriteOptions {
  OcdbtWriteMode mode = OcdbtWriteMode::kWrite;
  // 0: no limit. Absent: 2 GiB, or 400 MiB on gs://.
  std::optional<int64_t> target_data_file_size;
  bool store_ocdbt_metadata_and_values_separately = false;
};

// The directory to which B+tree nodes and the manifest are written until they
// are committed.
struct OcdbtTemporaryMetadataContext {
  std::string path;
};

struct KvstoreTspecOptions {
  std::optional<std::string> name;  // the parameter's
  bool use_ocdbt = true;
  // The older way of naming a process's subdirectory; only with OCDBT.
  // InvalidArgument `process_id must conform to [A-Za-z0-9]+ pattern, got X`.
  std::optional<std::string> process_id;
  bool replica_separate_folder = false;
  std::optional<OcdbtProcessSpec> ocdbt_process_spec;
  std::optional<OcdbtKvStoreWriteOptions> ocdbt_write_options;
  std::optional<OcdbtTemporaryMetadataContext> ocdbt_temporary_metadata_context;
};

// Returns the spec of the store for the item in `directory`, or for one
// parameter in it. `directory` is absolute or gs://bucket/path; with OCDBT,
// otherwise InvalidArgument `Checkpoint path should be absolute. Got X`.
Result<std::string> BuildKvstoreTspec(const std::string& directory,
                                      const KvstoreTspecOptions& options = {});

// Returns the spec of the store for the process's subdirectory with this name.
Result<std::string> BuildKvstoreTspecForMerge(const std::string& directory,
                                              const std::string& subdir);

// Returns the spec with the options for writing a database added.
// InvalidArgument `OCDBT target_data_file_size must be >= 0, where 0 means no
// limit; got X`.
Result<std::string> AddOcdbtWriteOptions(
    const std::string& kvstore_tspec,
    std::optional<int64_t> target_data_file_size = std::nullopt);

// Returns true if the spec (a JSON object or a quoted URL) refers to gs:// or
// s3://.
Result<bool> IsRemoteStorage(const std::string& tspec);

// --- Arrays.

struct ZarrShardAndChunkMetadataOptions {
  Shape global_shape;
  Shape shard_shape;  // currently unused
  bool use_compression = true;
  bool use_zarr3 = false;
  Shape chunk_shape;
};
std::string BuildZarrShardAndChunkMetadata(
    const ZarrShardAndChunkMetadataOptions& options);

// Options of Orbax's older builder, which supports shards with chunks inside
// them. An absent read_chunk_shape defaults to write_chunk_shape.
struct TsZarrShardAndChunkMetadataOptions {
  Shape global_shape;
  Shape shard_shape;
  bool use_zarr3 = false;
  DType dtype = DType::kFloat32;
  std::optional<Shape> write_chunk_shape;
  std::optional<Shape> read_chunk_shape;
  std::optional<int64_t> chunk_byte_size;
};
// Returns the members "chunks" or "chunk_grid", and codecs, but not "shape".
Result<std::string> BuildTsZarrShardAndChunkMetadata(
    const TsZarrShardAndChunkMetadataOptions& options);

struct ChunkByteSizeOptions {
  std::optional<int64_t> chunk_byte_size;
  std::optional<int64_t> ocdbt_target_data_file_size;
  std::optional<std::string> kvstore_spec;  // JSON text
};
// Returns the limit on a chunk's bytes with which a chunk fits into a data
// file. Nullopt: no limit.
Result<std::optional<int64_t>> CalculateChunkByteSize(
    const Shape& write_shape, DType dtype, const ChunkByteSizeOptions& options);

struct ArrayReadSpecOptions {
  bool use_zarr3 = false;
  bool use_ocdbt = true;
  std::optional<std::string> metadata_key;
  bool raise_array_data_missing_error = true;
  std::optional<DType> target_dtype;  // cast to it
};

class ArrayReadSpec {
 public:
  static Result<ArrayReadSpec> Make(const std::string& directory,
                                    const std::string& relative_array_filename,
                                    const ArrayReadSpecOptions& options);
  const std::string& json() const { return json_; }

 private:
  std::string json_;
};

struct ArrayWriteSpecOptions {
  Shape global_shape;
  Shape write_shape;
  DType dtype = DType::kFloat32;
  std::optional<DType> target_dtype;  // the stored dtype; absent: `dtype`
  std::optional<int64_t> chunk_byte_size;
  std::vector<int64_t> shard_axes;
  bool use_compression = true;
  bool use_zarr3 = false;
  bool use_ocdbt = true;
  std::optional<int64_t> ocdbt_target_data_file_size;
  std::optional<std::string> process_id;
  std::optional<std::string> metadata_key;
  bool replica_separate_folder = false;
  std::string ext_metadata;  // a JSON object, or empty
  bool store_ocdbt_metadata_and_values_separately = false;
  std::optional<OcdbtTemporaryMetadataContext> ocdbt_temporary_metadata_context;
};

// The record that a checkpoint keeps about an array written through a spec.
struct ArrayWriteMetadata {
  std::string param_name;
  Shape shape;
  DType dtype = DType::kFloat32;
  Shape write_shape;
  Shape chunk_shape;
  bool use_ocdbt = true;
  bool use_zarr3 = false;
  std::string ext_metadata;  // a JSON object, or empty
  std::string compression_algorithm = "none";
  std::optional<int> compression_level;
};

class ArrayWriteSpec {
 public:
  static Result<ArrayWriteSpec> Make(const std::string& directory,
                                     const std::string& relative_array_filename,
                                     const ArrayWriteSpecOptions& options);
  const std::string& json() const { return json_; }
  const ArrayWriteMetadata& metadata() const { return metadata_; }

 private:
  std::string json_;
  ArrayWriteMetadata metadata_;
};

// --- Specs for a ParamInfo. InvalidArgument `Must provide info.name and
// info.parent_dir.`

struct JsonTspecReadOptions {
  std::optional<std::string> metadata_key;
  bool raise_array_data_missing_error = true;
  std::optional<DType> target_dtype;
};
Result<ArrayReadSpec> BuildArrayReadSpec(
    const ParamInfo& info, bool use_ocdbt,
    const JsonTspecReadOptions& options = {});
Result<std::string> GetJsonTspecRead(const ParamInfo& info, bool use_ocdbt,
                                     const JsonTspecReadOptions& options = {});

struct JsonTspecWriteOptions {
  Shape global_shape;
  Shape local_shape;
  DType dtype = DType::kFloat32;
  std::optional<std::string> process_index;
  bool replica_separate_folder = false;
  std::optional<std::string> metadata_key;
  std::string ext_metadata;  // a JSON object, or empty
};
Result<ArrayWriteSpec> BuildArrayWriteSpec(
    const ParamInfo& info, const std::optional<SaveArgs>& arg, bool use_ocdbt,
    const JsonTspecWriteOptions& options);
// Returns the JSON of such a spec. With arg->write_chunk_shape or
// arg->read_chunk_shape, the chunks are those of
// BuildTsZarrShardAndChunkMetadata.
Result<std::string> GetJsonTspecWrite(
    const ParamInfo& info, bool use_ocdbt, const JsonTspecWriteOptions& options,
    const std::optional<SaveArgs>& arg = std::nullopt);

// Wraps a spec in a cast: values of `dtype` are stored as args.dtype.
Result<std::string> GetCastTspecSerialize(const std::string& tspec, DType dtype,
                                          const SaveArgs& args);
// Wraps a spec in a cast: values are read as the args' dtype. Without a dtype,
// returns the spec unchanged.
Result<std::string> GetCastTspecDeserialize(const std::string& tspec,
                                            const AnyRestoreArgs& args);

// Returns the spec of a parameter's entry in `_sharding`, for the json driver.
Result<std::string> GetShardingTensorstoreSpec(const std::string& directory,
                                               const std::string& param_name);

// Fails with NotFound `Individual parameter subdirectory not found at path: P.`
// or `File not found: P. In many cases, ...`.
Status AssertParameterFilesExist(
    const std::string& param_dir,
    const std::optional<std::string>& metadata_key = std::nullopt,
    bool use_zarr3 = false);

// --- Limits.

// Limits that everything opened with this context shares.
struct TsContext {
  bool use_ocdbt = true;
  // The most concurrent reads and writes of files. Each thread has only one in
  // flight, so this also limits the threads.
  int64_t file_io_concurrency_limit = 128;
  // Threads that encode, decode and copy; absent: one per available CPU.
  std::optional<int64_t> data_copy_concurrency_limit;
  // Size of a database's cache of decoded B+tree nodes; 0 without OCDBT.
  uint64_t cache_pool_bytes = 100000000;

  // Returns the resources as TensorStore's JSON.
  std::string json() const;
  RunOptions run_options() const;
};

struct TsContextOptions {
  bool use_ocdbt = true;
  std::optional<int64_t> file_io_concurrency_limit;
  std::optional<int64_t> data_copy_concurrency_limit;
};
// InvalidArgument for a limit below 1.
Result<TsContext> GetTsContext(const TsContextOptions& options = {});

// Returns a JSON array: what this process has read and written so far, then
// {"key": key} and {"infos": [names]}.
std::string PrintTsDebugData(const std::optional<std::string>& key,
                             const std::vector<ParamInfo>& infos);

}  // namespace holdfast
