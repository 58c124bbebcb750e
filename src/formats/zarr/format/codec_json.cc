#include "formats/zarr/format/codec_json.h"

#include <algorithm>
#include <array>
#include <cassert>

#include "ground/base/status_macros.h"

namespace holdfast::zarr {
namespace {

constexpr int64_t kZstdLevelMin = -131072;
constexpr int64_t kZstdLevelMax = 22;
// BLOSC_MAX_BLOCKSIZE.
constexpr int64_t kBloscBlockBytesMax = 715827542;

constexpr std::array<std::string_view, 3> kShuffleNames = {
    "noshuffle", "shuffle", "bitshuffle"};

// Reads a member of a v2 compressor that may be absent.
Result<int> OptionalLevel(const Json& object, std::string_view name,
                          int missing, int64_t low, int64_t high) {
  const Json* value = Find(object, name);
  if (value == nullptr) return missing;
  HF_ASSIGN_OR_RETURN(const int64_t level,
                      InMember(name, ReadInt(value, low, high)));
  return static_cast<int>(level);
}

Result<int> RequiredLevel(const Json& object, std::string_view name,
                          int64_t low, int64_t high) {
  HF_ASSIGN_OR_RETURN(const int64_t level,
                      InMember(name, ReadInt(Find(object, name), low, high)));
  return static_cast<int>(level);
}

Result<std::string> ReadCname(const Json& object) {
  const Json* value = Find(object, "cname");
  HF_ASSIGN_OR_RETURN(std::string cname, InMember("cname", ReadString(value)));
  for (std::string_view known :
       {"blosclz", "lz4", "lz4hc", "snappy", "zlib", "zstd"}) {
    if (cname == known) return cname;
  }
  return AtMember(
      "cname", FailedPreconditionError("Expected one of "
                                       "blosclz,lz4,lz4hc,snappy,zlib,zstd, " +
                                       Received(value)));
}

Result<BytesCodecParams> ParseZstdV2(const Json& object) {
  HF_RETURN_IF_ERROR(CheckMembers(object, {"id", "level"}));
  ZstdParams params;
  HF_ASSIGN_OR_RETURN(
      params.level,
      OptionalLevel(object, "level", 1, kZstdLevelMin, kZstdLevelMax));
  return BytesCodecParams(params);
}

Result<BytesCodecParams> ParseGzipV2(const Json& object, bool zlib_header) {
  HF_RETURN_IF_ERROR(CheckMembers(object, {"id", "level"}));
  GzipParams params;
  params.zlib_header = zlib_header;
  HF_ASSIGN_OR_RETURN(params.level, OptionalLevel(object, "level", 1, 0, 9));
  return BytesCodecParams(params);
}

// Refuses a bz2 compressor as unsupported. If it is valid, it is legal zarr, so
// its members are checked first.
Result<BytesCodecParams> ParseBz2V2(const Json& object) {
  HF_RETURN_IF_ERROR(CheckMembers(object, {"id", "level"}));
  HF_RETURN_IF_ERROR(OptionalLevel(object, "level", 1, 1, 9).status());
  return UnimplementedError("compressor \"bz2\" is not supported");
}

Result<BytesCodecParams> ParseBloscV2(const Json& object) {
  HF_RETURN_IF_ERROR(
      CheckMembers(object, {"id", "cname", "clevel", "shuffle", "blocksize"}));
  BloscParams params;
  if (Find(object, "cname") != nullptr) {
    HF_ASSIGN_OR_RETURN(params.cname, ReadCname(object));
  }
  HF_ASSIGN_OR_RETURN(params.clevel, OptionalLevel(object, "clevel", 5, 0, 9));
  HF_ASSIGN_OR_RETURN(params.shuffle,
                      OptionalLevel(object, "shuffle", -1, -1, 2));
  HF_ASSIGN_OR_RETURN(params.blocksize, OptionalLevel(object, "blocksize", 0, 0,
                                                      kBloscBlockBytesMax));
  return BytesCodecParams(params);
}

Result<BytesCodecParams> ParseCompressorObject(const Json& object) {
  HF_ASSIGN_OR_RETURN(const std::string id,
                      InMember("id", ReadString(Find(object, "id"))));
  if (id == "zstd") return ParseZstdV2(object);
  if (id == "zlib") return ParseGzipV2(object, /*zlib_header=*/true);
  if (id == "gzip") return ParseGzipV2(object, /*zlib_header=*/false);
  if (id == "blosc") return ParseBloscV2(object);
  if (id == "bz2") return ParseBz2V2(object);
  return AtMember("id",
                  UnimplementedError(Json(id).dump() + " is not registered"));
}

Result<BytesCodecParams> ParseZstdV3(const Json& configuration) {
  HF_RETURN_IF_ERROR(CheckMembers(configuration, {"level", "checksum"}));
  ZstdParams params;
  params.checksum = false;
  HF_ASSIGN_OR_RETURN(
      params.level,
      RequiredLevel(configuration, "level", kZstdLevelMin, kZstdLevelMax));
  if (const Json* checksum = Find(configuration, "checksum")) {
    HF_ASSIGN_OR_RETURN(params.checksum,
                        InMember("checksum", ReadBool(checksum)));
  }
  return BytesCodecParams(params);
}

Result<BytesCodecParams> ParseGzipV3(const Json& configuration) {
  HF_RETURN_IF_ERROR(CheckMembers(configuration, {"level"}));
  GzipParams params;
  HF_ASSIGN_OR_RETURN(params.level,
                      RequiredLevel(configuration, "level", 0, 9));
  return BytesCodecParams(params);
}

// Reads typesize. Without a shuffle, typesize has no meaning, so it is neither
// required nor kept.
Result<size_t> ReadTypesize(const Json& configuration, int shuffle) {
  const Json* value = Find(configuration, "typesize");
  if (value == nullptr && shuffle == 0) return size_t{0};
  HF_ASSIGN_OR_RETURN(const int64_t typesize,
                      InMember("typesize", ReadInt(value, 1, 255)));
  return shuffle == 0 ? size_t{0} : static_cast<size_t>(typesize);
}

Result<BytesCodecParams> ParseBloscV3(const Json& configuration) {
  HF_RETURN_IF_ERROR(CheckMembers(
      configuration, {"cname", "clevel", "shuffle", "blocksize", "typesize"}));
  BloscParams params;
  HF_ASSIGN_OR_RETURN(params.cname, ReadCname(configuration));
  HF_ASSIGN_OR_RETURN(params.clevel,
                      RequiredLevel(configuration, "clevel", 0, 9));
  HF_ASSIGN_OR_RETURN(
      params.blocksize,
      RequiredLevel(configuration, "blocksize", 0, kBloscBlockBytesMax));
  HF_ASSIGN_OR_RETURN(
      const std::string shuffle,
      InMember("shuffle", ReadOneOf(Find(configuration, "shuffle"),
                                    {"noshuffle", "shuffle", "bitshuffle"})));
  params.shuffle = static_cast<int>(
      std::find(kShuffleNames.begin(), kShuffleNames.end(), shuffle) -
      kShuffleNames.begin());
  HF_ASSIGN_OR_RETURN(params.typesize,
                      ReadTypesize(configuration, params.shuffle));
  return BytesCodecParams(params);
}

Result<BytesCodecParams> ParseCrc32cV3(const Json& configuration) {
  HF_RETURN_IF_ERROR(CheckMembers(configuration, {}));
  return BytesCodecParams(Crc32cParams());
}

std::string NotPermutation(const Shape& order) {
  return Braced(order) + " is not a valid permutation";
}

Result<std::vector<int>> ReadOrderList(const Json& list, size_t rank) {
  Shape order;
  for (const Json& item : list) {
    HF_ASSIGN_OR_RETURN(const int64_t dimension,
                        ReadInt(&item, 0, kRankMax - 1));
    order.push_back(dimension);
    if (order.size() > kRankMax) {
      return FailedPreconditionError(NotPermutation(order));
    }
  }
  Shape sorted = order;
  std::sort(sorted.begin(), sorted.end());
  for (size_t i = 0; i < sorted.size(); ++i) {
    if (sorted[i] != static_cast<int64_t>(i)) {
      return FailedPreconditionError(NotPermutation(order));
    }
  }
  if (order.size() != rank) {
    return FailedPreconditionError(
        Braced(order) + " is not a valid dimension permutation for a rank " +
        std::to_string(rank) + " array");
  }
  return std::vector<int>(order.begin(), order.end());
}

Result<std::vector<int>> ParseTranspose(const Json& configuration,
                                        size_t rank) {
  HF_RETURN_IF_ERROR(CheckMembers(configuration, {"order"}));
  const Json* value = Find(configuration, "order");
  if (value != nullptr && value->is_array()) {
    return InMember("order", ReadOrderList(*value, rank));
  }
  HF_ASSIGN_OR_RETURN(const std::string order,
                      InMember("order", ReadOneOf(value, {"C", "F"})));
  std::vector<int> permutation(rank);
  for (size_t i = 0; i < rank; ++i) {
    permutation[i] = static_cast<int>(order == "C" ? i : rank - 1 - i);
  }
  return permutation;
}

Result<Endian> ParseBytes(const Json& configuration, DType dtype) {
  HF_RETURN_IF_ERROR(CheckMembers(configuration, {"endian"}));
  const Json* value = Find(configuration, "endian");
  if (value == nullptr && DTypeBytes(dtype) > 1) {
    return FailedPreconditionError(
        "\"bytes\" codec requires that \"endian\" option is specified for "
        "data type " +
        std::string(DTypeName(dtype)));
  }
  if (value == nullptr) return Endian::kLittle;
  HF_ASSIGN_OR_RETURN(const std::string endian,
                      InMember("endian", ReadOneOf(value, {"little", "big"})));
  const bool big = endian == "big" && DTypeBytes(dtype) > 1;
  return big ? Endian::kBig : Endian::kLittle;
}

// Parses index_codecs, which encode a uint64 array with one dimension more than
// the shard's grid.
Status ParseIndexCodecs(const Json* value, size_t rank,
                        ShardingParams& sharding) {
  HF_ASSIGN_OR_RETURN(const CodecList codecs,
                      ParseCodecs(value, DType::kUint64, rank + 1));
  if (!codecs.transposes.empty()) {
    return UnimplementedError("transpose of a shard index is not supported");
  }
  bool fixed_size = !codecs.sharding;
  for (const BytesCodecParams& codec : codecs.bytes_codecs) {
    fixed_size = fixed_size && std::holds_alternative<Crc32cParams>(codec);
  }
  if (!fixed_size) {
    return FailedPreconditionError(
        "Invalid index_codecs specified: only fixed-size encodings are "
        "supported");
  }
  sharding.index_endian = codecs.endian;
  sharding.index_crc32c_count = static_cast<int>(codecs.bytes_codecs.size());
  return Status();
}

Result<ShardingParams> ParseSharding(const Json& configuration, DType dtype,
                                     size_t rank) {
  HF_RETURN_IF_ERROR(CheckMembers(
      configuration,
      {"chunk_shape", "codecs", "index_codecs", "index_location"}));
  ShardingParams sharding;
  HF_ASSIGN_OR_RETURN(
      sharding.chunk_shape,
      InMember("chunk_shape",
               ReadShape(Find(configuration, "chunk_shape"), 1)));
  HF_ASSIGN_OR_RETURN(
      CodecList inner,
      InMember("codecs",
               ParseCodecs(Find(configuration, "codecs"), dtype, rank)));
  if (inner.sharding) {
    return UnimplementedError(
        "sharding_indexed inside sharding_indexed is not supported");
  }
  sharding.transposes = std::move(inner.transposes);
  sharding.endian = inner.endian;
  sharding.bytes_codecs = std::move(inner.bytes_codecs);
  const Json* index_codecs = Find(configuration, "index_codecs");
  Status index = ParseIndexCodecs(index_codecs, rank, sharding);
  if (!index.ok()) return AtMember("index_codecs", index);
  if (const Json* location = Find(configuration, "index_location")) {
    HF_ASSIGN_OR_RETURN(
        const std::string where,
        InMember("index_location", ReadOneOf(location, {"start", "end"})));
    sharding.index_location =
        where == "start" ? IndexLocation::kStart : IndexLocation::kEnd;
  }
  return sharding;
}

bool IsArrayCodec(const std::string& name) {
  return name == "transpose" || name == "bytes" || name == "sharding_indexed";
}

Result<BytesCodecParams> ParseBytesCodec(const std::string& name,
                                         const Json& configuration) {
  if (name == "zstd") return ParseZstdV3(configuration);
  if (name == "gzip") return ParseGzipV3(configuration);
  if (name == "blosc") return ParseBloscV3(configuration);
  assert(name == "crc32c");
  return ParseCrc32cV3(configuration);
}

Status CheckCodecName(const std::string& name) {
  for (std::string_view known : {"transpose", "bytes", "sharding_indexed",
                                 "zstd", "gzip", "blosc", "crc32c"}) {
    if (name == known) return Status();
  }
  return AtMember("name",
                  UnimplementedError(Json(name).dump() + " is not registered"));
}

// Accepts codec objects one after the other.
class CodecListParser {
 public:
  CodecListParser(DType dtype, size_t rank) : dtype_(dtype), rank_(rank) {}

  Status Add(const Json& codec) {
    HF_RETURN_IF_ERROR(ReadObject(&codec).status());
    HF_ASSIGN_OR_RETURN(const std::string name,
                        InMember("name", ReadString(Find(codec, "name"))));
    HF_RETURN_IF_ERROR(CheckCodecName(name));
    HF_RETURN_IF_ERROR(CheckMembers(codec, {"name", "configuration"}));
    const Json none = Json::object();
    const Json* configuration = Find(codec, "configuration");
    if (configuration == nullptr) configuration = &none;
    HF_RETURN_IF_ERROR(
        InMember("configuration", ReadObject(configuration)).status());
    misplaced_ = CheckPlace(codec, name);
    HF_RETURN_IF_ERROR(misplaced_);
    Status status = AddConfigured(name, *configuration);
    return status.ok() ? status : AtMember("configuration", status);
  }

  // True if the failure of Add concerns the list, not one codec in it.
  bool misplaced() const { return !misplaced_.ok(); }

  Result<CodecList> Finish() && {
    if (!has_bytes_) return MissingBytesError();
    return std::move(list_);
  }

 private:
  static Status MissingBytesError() {
    return FailedPreconditionError("array -> bytes codec must be specified");
  }

  Status CheckPlace(const Json& codec, const std::string& name) const {
    if (!IsArrayCodec(name) && !has_bytes_) return MissingBytesError();
    if (IsArrayCodec(name) && has_bytes_) {
      return FailedPreconditionError("Expected bytes -> bytes codec, " +
                                     Received(&codec));
    }
    if (list_.sharding) {
      return FailedPreconditionError(
          "Sharding codec is not compatible with subsequent bytes -> bytes "
          "codecs that apply to the entire shard (got " +
          codec.dump() + ")");
    }
    return Status();
  }

  Status AddConfigured(const std::string& name, const Json& configuration) {
    if (name == "transpose") {
      HF_ASSIGN_OR_RETURN(std::vector<int> order,
                          ParseTranspose(configuration, rank_));
      list_.transposes.push_back(std::move(order));
      return Status();
    }
    if (name == "bytes") {
      HF_ASSIGN_OR_RETURN(list_.endian, ParseBytes(configuration, dtype_));
      has_bytes_ = true;
      return Status();
    }
    if (name == "sharding_indexed") {
      HF_ASSIGN_OR_RETURN(list_.sharding,
                          ParseSharding(configuration, dtype_, rank_));
      has_bytes_ = true;
      return Status();
    }
    HF_ASSIGN_OR_RETURN(BytesCodecParams params,
                        ParseBytesCodec(name, configuration));
    list_.bytes_codecs.push_back(std::move(params));
    return Status();
  }

  const DType dtype_;
  const size_t rank_;
  CodecList list_;
  bool has_bytes_ = false;
  Status misplaced_;
};

Json Named(std::string_view name, Json configuration) {
  Json codec = {{"name", name}};
  if (!configuration.empty()) codec["configuration"] = std::move(configuration);
  return codec;
}

Json ToJsonV3(const ZstdParams& params) {
  return Named("zstd",
               {{"level", params.level}, {"checksum", params.checksum}});
}

Json ToJsonV3(const GzipParams& params) {
  return Named("gzip", {{"level", params.level}});
}

Json ToJsonV3(const BloscParams& params) {
  assert(params.shuffle >= 0 && params.shuffle <= 2);
  Json configuration = {{"cname", params.cname},
                        {"clevel", params.clevel},
                        {"shuffle", kShuffleNames[params.shuffle]},
                        {"blocksize", params.blocksize}};
  if (params.shuffle != 0) configuration["typesize"] = params.typesize;
  return Named("blosc", std::move(configuration));
}

Json ToJsonV3(const Crc32cParams&) { return Named("crc32c", Json::object()); }

Json BytesToJson(Endian endian, DType dtype) {
  Json configuration = Json::object();
  if (DTypeBytes(dtype) > 1) {
    configuration["endian"] = endian == Endian::kBig ? "big" : "little";
  }
  return Named("bytes", std::move(configuration));
}

Json ShardingToJson(const ShardingParams& sharding, DType dtype) {
  const CodecList inner = {.transposes = sharding.transposes,
                           .endian = sharding.endian,
                           .bytes_codecs = sharding.bytes_codecs};
  CodecList index;
  index.endian = sharding.index_endian;
  index.bytes_codecs.assign(sharding.index_crc32c_count, Crc32cParams());
  Json configuration = {{"chunk_shape", sharding.chunk_shape},
                        {"codecs", CodecsToJson(inner, dtype)},
                        {"index_codecs", CodecsToJson(index, DType::kUint64)}};
  if (sharding.index_location == IndexLocation::kStart) {
    configuration["index_location"] = "start";
  }
  return Named("sharding_indexed", std::move(configuration));
}

Json ToJsonV2(const ZstdParams& params) {
  return {{"id", "zstd"}, {"level", params.level}};
}

Json ToJsonV2(const GzipParams& params) {
  return {{"id", params.zlib_header ? "zlib" : "gzip"},
          {"level", params.level}};
}

Json ToJsonV2(const BloscParams& params) {
  return {{"id", "blosc"},
          {"cname", params.cname},
          {"clevel", params.clevel},
          {"shuffle", params.shuffle},
          {"blocksize", params.blocksize}};
}

Json ToJsonV2(const Crc32cParams&) {
  assert(false && "crc32c is not a v2 compressor");
  return nullptr;
}

}  // namespace

Result<std::vector<BytesCodecParams>> ParseCompressor(const Json* value) {
  std::vector<BytesCodecParams> codecs;
  if (value != nullptr && value->is_null()) return codecs;
  HF_ASSIGN_OR_RETURN(const Json* object, ReadObject(value));
  HF_ASSIGN_OR_RETURN(BytesCodecParams params, ParseCompressorObject(*object));
  codecs.push_back(std::move(params));
  return codecs;
}

Json CompressorToJson(const std::vector<BytesCodecParams>& codecs) {
  assert(codecs.size() <= 1);
  if (codecs.empty()) return nullptr;
  return std::visit([](const auto& params) { return ToJsonV2(params); },
                    codecs[0]);
}

Result<CodecList> ParseCodecs(const Json* value, DType dtype, size_t rank) {
  HF_ASSIGN_OR_RETURN(const Json* list, ReadArray(value));
  CodecListParser parser(dtype, rank);
  for (size_t i = 0; i < list->size(); ++i) {
    Status status = parser.Add((*list)[i]);
    if (status.ok()) continue;
    return parser.misplaced() ? status : AtPosition(i, status);
  }
  return std::move(parser).Finish();
}

Json CodecsToJson(const CodecList& codecs, DType dtype) {
  Json list = Json::array();
  for (const std::vector<int>& order : codecs.transposes) {
    list.push_back(Named("transpose", {{"order", order}}));
  }
  list.push_back(codecs.sharding ? ShardingToJson(*codecs.sharding, dtype)
                                 : BytesToJson(codecs.endian, dtype));
  for (const BytesCodecParams& codec : codecs.bytes_codecs) {
    list.push_back(
        std::visit([](const auto& params) { return ToJsonV3(params); }, codec));
  }
  return list;
}

}  // namespace holdfast::zarr
