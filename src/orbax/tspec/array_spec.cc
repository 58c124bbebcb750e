// ArrayReadSpec, ArrayWriteSpec, and the zarr metadata in them.
#include <algorithm>
#include <utility>
#include <variant>

#include "engine/save/chunk_shapes.h"
#include "ground/base/status_macros.h"
#include "holdfast/orbax/spec.h"
#include "orbax/tspec/kvstore_tspec.h"
#include "orbax/tspec/spec_json.h"

namespace holdfast {
namespace {

using spec::OrderedJson;

// TensorStore's defaults, which the specs state explicitly.
constexpr int kZarr2ZstdLevel = 1;
constexpr int kZarr3ZstdLevel = 3;

OrderedJson BytesCodec() {
  OrderedJson codec = OrderedJson::object();
  codec["name"] = "bytes";
  codec["configuration"]["endian"] = "little";
  return codec;
}

// Returns a sharding codec. A null `zstd` means no compression.
OrderedJson ShardingCodec(const Shape& chunk_shape, const OrderedJson& zstd) {
  OrderedJson codecs = OrderedJson::array({BytesCodec()});
  if (!zstd.is_null()) codecs.push_back(zstd);
  OrderedJson crc32c;
  crc32c["name"] = "crc32c";
  OrderedJson configuration = OrderedJson::object();
  configuration["chunk_shape"] = spec::ToJson(chunk_shape);
  configuration["codecs"] = std::move(codecs);
  configuration["index_codecs"] = OrderedJson::array({BytesCodec(), crc32c});
  configuration["index_location"] = "end";
  OrderedJson codec = OrderedJson::object();
  codec["name"] = "sharding_indexed";
  codec["configuration"] = std::move(configuration);
  return codec;
}

OrderedJson RegularGrid(const Shape& chunk_shape) {
  OrderedJson grid = OrderedJson::object();
  grid["name"] = "regular";
  grid["configuration"]["chunk_shape"] = spec::ToJson(chunk_shape);
  return grid;
}

OrderedJson Zarr3Zstd() {
  OrderedJson zstd = OrderedJson::object();
  zstd["name"] = "zstd";
  zstd["configuration"]["level"] = kZarr3ZstdLevel;
  return zstd;
}

OrderedJson Zarr2Zstd() {
  OrderedJson zstd = OrderedJson::object();
  zstd["id"] = "zstd";
  zstd["level"] = kZarr2ZstdLevel;
  return zstd;
}

OrderedJson ZarrMetadata(const ZarrShardAndChunkMetadataOptions& options) {
  OrderedJson metadata = OrderedJson::object();
  metadata["shape"] = spec::ToJson(options.global_shape);
  if (!options.use_zarr3) {
    metadata["chunks"] = spec::ToJson(options.chunk_shape);
    metadata["compressor"] =
        options.use_compression ? Zarr2Zstd() : OrderedJson();
    return metadata;
  }
  const OrderedJson zstd = options.use_compression ? Zarr3Zstd() : nullptr;
  metadata["chunk_grid"] = RegularGrid(options.chunk_shape);
  metadata["codecs"] =
      OrderedJson::array({ShardingCodec(options.chunk_shape, zstd)});
  return metadata;
}

OrderedJson OlderMetadata(bool use_zarr3, const ChunkShapes& shapes) {
  OrderedJson metadata;
  OrderedJson zstd;
  if (!use_zarr3) {
    zstd["id"] = "zstd";
    metadata["chunks"] = spec::ToJson(shapes.write);
    metadata["compressor"] = std::move(zstd);
    return metadata;
  }
  zstd["name"] = "zstd";
  metadata["chunk_grid"] = RegularGrid(shapes.write);
  metadata["codecs"] = OrderedJson::array({ShardingCodec(shapes.read, zstd)});
  return metadata;
}

OrderedJson Cast(OrderedJson base, DType dtype) {
  OrderedJson cast = OrderedJson::object();
  cast["base"] = std::move(base);
  cast["driver"] = "cast";
  cast["dtype"] = spec::ToJson(dtype);
  return cast;
}

std::string_view TspecDriver(bool use_zarr3) {
  return use_zarr3 ? kZarrVer3 : kZarrVer2;
}

std::optional<int64_t> FitChunk(const Shape& write_shape, DType dtype,
                                std::optional<int64_t> chunk_byte_size,
                                std::optional<int64_t> file_bytes,
                                const OrderedJson* kvstore) {
  return CalculateChunkByteSize(
      write_shape, dtype, chunk_byte_size,
      file_bytes.value_or(spec::DefaultDataFileBytes(kvstore)));
}

Result<OrderedJson> WriteKvstore(const std::string& directory,
                                 const std::string& name,
                                 const ArrayWriteSpecOptions& options) {
  KvstoreTspecOptions kvstore;
  kvstore.name = name;
  kvstore.use_ocdbt = options.use_ocdbt;
  if (options.process_id) {
    HF_ASSIGN_OR_RETURN(
        kvstore.ocdbt_process_spec,
        OcdbtProcessSpec::Make(*options.process_id,
                               options.replica_separate_folder));
  }
  kvstore.ocdbt_write_options = OcdbtKvStoreWriteOptions{
      .target_data_file_size = options.ocdbt_target_data_file_size,
      .store_ocdbt_metadata_and_values_separately =
          options.store_ocdbt_metadata_and_values_separately};
  kvstore.ocdbt_temporary_metadata_context =
      options.ocdbt_temporary_metadata_context;
  return spec::KvstoreTspec(directory, kvstore);
}

Result<Shape> WriteChunkShape(const ArrayWriteSpecOptions& options,
                              DType stored, const OrderedJson& kvstore) {
  std::optional<int64_t> chunk_bytes = options.chunk_byte_size;
  if (options.use_ocdbt) {
    chunk_bytes = FitChunk(options.write_shape, stored, chunk_bytes,
                           options.ocdbt_target_data_file_size, &kvstore);
  }
  return ChooseChunkShape(options.global_shape, options.write_shape, stored,
                          chunk_bytes, options.shard_axes);
}

ArrayWriteMetadata MetadataOf(const std::string& name, DType stored,
                              const Shape& chunk_shape,
                              const ArrayWriteSpecOptions& options) {
  ArrayWriteMetadata metadata;
  metadata.param_name = name;
  metadata.shape = options.global_shape;
  metadata.dtype = stored;
  metadata.write_shape = options.write_shape;
  metadata.chunk_shape = chunk_shape;
  metadata.use_ocdbt = options.use_ocdbt;
  metadata.use_zarr3 = options.use_zarr3;
  metadata.ext_metadata = options.ext_metadata;
  if (!options.use_compression) return metadata;
  metadata.compression_algorithm = "zstd";
  metadata.compression_level =
      options.use_zarr3 ? kZarr3ZstdLevel : kZarr2ZstdLevel;
  return metadata;
}

}  // namespace

std::string BuildZarrShardAndChunkMetadata(
    const ZarrShardAndChunkMetadataOptions& options) {
  return spec::Dump(ZarrMetadata(options));
}

Result<std::string> BuildTsZarrShardAndChunkMetadata(
    const TsZarrShardAndChunkMetadataOptions& options) {
  HF_ASSIGN_OR_RETURN(
      ChunkShapes shapes,
      ChooseChunkShapes({.global_shape = options.global_shape,
                         .shard_shape = options.shard_shape,
                         .dtype = options.dtype,
                         .use_zarr3 = options.use_zarr3,
                         .write_chunk_shape = options.write_chunk_shape,
                         .read_chunk_shape = options.read_chunk_shape,
                         .chunk_byte_size = options.chunk_byte_size}));
  if (!options.use_zarr3) {
    for (int64_t& extent : shapes.write) extent = std::max<int64_t>(1, extent);
  }
  return spec::Dump(OlderMetadata(options.use_zarr3, shapes));
}

Result<std::optional<int64_t>> CalculateChunkByteSize(
    const Shape& write_shape, DType dtype,
    const ChunkByteSizeOptions& options) {
  OrderedJson kvstore;
  if (options.kvstore_spec) {
    HF_ASSIGN_OR_RETURN(kvstore, spec::ParseObject(*options.kvstore_spec));
  }
  return FitChunk(write_shape, dtype, options.chunk_byte_size,
                  options.ocdbt_target_data_file_size,
                  options.kvstore_spec ? &kvstore : nullptr);
}

Result<ArrayReadSpec> ArrayReadSpec::Make(
    const std::string& directory, const std::string& relative_array_filename,
    const ArrayReadSpecOptions& options) {
  KvstoreTspecOptions kvstore;
  kvstore.name = relative_array_filename;
  kvstore.use_ocdbt = options.use_ocdbt;
  OrderedJson tspec = OrderedJson::object();
  tspec["driver"] = TspecDriver(options.use_zarr3);
  HF_ASSIGN_OR_RETURN(tspec["kvstore"], spec::KvstoreTspec(directory, kvstore));
  tspec["recheck_cached_data"] = false;
  tspec["recheck_cached_metadata"] = false;
  tspec["fill_missing_data_reads"] = !options.raise_array_data_missing_error;
  if (options.metadata_key) tspec["metadata_key"] = *options.metadata_key;
  if (options.target_dtype) {
    tspec = Cast(std::move(tspec), *options.target_dtype);
  }
  ArrayReadSpec result;
  result.json_ = spec::Dump(tspec);
  return result;
}

Result<ArrayWriteSpec> ArrayWriteSpec::Make(
    const std::string& directory, const std::string& relative_array_filename,
    const ArrayWriteSpecOptions& options) {
  const DType stored = options.target_dtype.value_or(options.dtype);
  OrderedJson tspec = OrderedJson::object();
  tspec["driver"] = TspecDriver(options.use_zarr3);
  HF_ASSIGN_OR_RETURN(
      tspec["kvstore"],
      WriteKvstore(directory, relative_array_filename, options));
  tspec["recheck_cached_data"] = false;
  tspec["recheck_cached_metadata"] = false;
  tspec["store_data_equal_to_fill_value"] = kStoreArrayDataEqualToFillValue;
  if (options.metadata_key) tspec["metadata_key"] = *options.metadata_key;
  HF_ASSIGN_OR_RETURN(const Shape chunk_shape,
                      WriteChunkShape(options, stored, tspec["kvstore"]));
  tspec["metadata"] = ZarrMetadata({.global_shape = options.global_shape,
                                    .shard_shape = options.write_shape,
                                    .use_compression = options.use_compression,
                                    .use_zarr3 = options.use_zarr3,
                                    .chunk_shape = chunk_shape});
  tspec["dtype"] = spec::ToJson(stored);
  if (stored != options.dtype) tspec = Cast(std::move(tspec), options.dtype);
  ArrayWriteSpec result;
  result.json_ = spec::Dump(tspec);
  result.metadata_ =
      MetadataOf(relative_array_filename, stored, chunk_shape, options);
  return result;
}

Result<std::string> GetCastTspecSerialize(const std::string& tspec, DType dtype,
                                          const SaveArgs& args) {
  HF_ASSIGN_OR_RETURN(OrderedJson base, spec::ParseObject(tspec));
  base["dtype"] = spec::ToJson(args.dtype.value_or(dtype));
  return spec::Dump(Cast(std::move(base), dtype));
}

Result<std::string> GetCastTspecDeserialize(const std::string& tspec,
                                            const AnyRestoreArgs& args) {
  const std::optional<DType> dtype =
      std::visit([](const auto& a) { return a.dtype; }, args);
  if (!dtype) return tspec;
  HF_ASSIGN_OR_RETURN(OrderedJson base, spec::ParseObject(tspec));
  return spec::Dump(Cast(std::move(base), *dtype));
}

}  // namespace holdfast
