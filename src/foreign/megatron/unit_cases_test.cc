// The corpus's cases for single functions, and for saves that fail.
#include <gtest/gtest.h>

#include <set>

#include "foreign/megatron/corpus_test_util.h"
#include "foreign/megatron/python_text.h"

namespace holdfast::megatron {
namespace {

namespace fs = std::filesystem;

Json SliceJson(const std::vector<SliceItem>& slice) {
  Json json = Json::array();
  for (const SliceItem& item : slice) {
    if (item.is_index) {
      json.push_back(item.start);
    } else {
      json.push_back({item.start, item.stop});
    }
  }
  return json;
}

Json RangeJson(const std::optional<FlatRange>& range) {
  return range ? Json({range->start, range->stop}) : Json();
}

// Returns the properties that the corpus records for a ShardedTensor.
Result<Json> Derived(const ShardedTensor& tensor) {
  if (const Status status = tensor.Check(); !status.ok()) return status;
  Json json = {{"local_shape", tensor.local_shape},
               {"global_shape", tensor.global_shape},
               {"global_offset", tensor.global_offset},
               {"axis_fragmentations", *tensor.axis_fragmentations},
               {"prepend_axis_num", tensor.prepend_axis_num},
               {"flattened_range", RangeJson(tensor.flattened_range)},
               {"global_slice", SliceJson(tensor.GlobalSlice())}};
  const auto offset = tensor.LocalChunkOffsetInGlobal();
  json["local_chunk_offset_in_global"] =
      offset.ok() ? Json(*offset)
                  : Json({{"error", ErrorOf(offset.status())->python_class}});
  const auto chunks = tensor.MaxAllowedChunks();
  if (!chunks.ok()) return chunks.status();
  json["max_allowed_chunks"] = *chunks;
  if (!tensor.flattened_range) return json;
  json["local_coordinates"] = *tensor.LocalCoordinates();
  Json global = Json::array();
  const auto coordinates = *tensor.GlobalCoordinates();
  for (size_t i = 0; i < coordinates.size(); ++i) {
    const bool is_prepended = static_cast<int>(i) < tensor.prepend_axis_num;
    global.push_back(is_prepended ? Json(coordinates[i][0])
                                  : Json(coordinates[i]));
  }
  json["global_coordinates"] = global;
  return json;
}

std::vector<RankOffset> OffsetsOf(const Json& json) {
  std::vector<RankOffset> offsets;
  for (const Json& offset : json) {
    offsets.push_back({offset[0], offset[1], offset[2]});
  }
  return offsets;
}

// Returns a float32 array that counts up from `first`.
Array Counting(const Shape& shape, int64_t first = 0) {
  std::vector<float> values;
  for (int64_t i = 0; i < ElementCount(shape); ++i) {
    values.push_back(static_cast<float>(first + i));
  }
  return Array::FromBytes(DType::kFloat32, shape, values.data());
}

Json ValuesOf(const ConstArrayView& view) {
  const std::string bytes = PackedBytes(view);
  Json values = Json::array();
  for (size_t i = 0; i < bytes.size(); i += 4) {
    float value;
    std::memcpy(&value, bytes.data() + i, 4);
    values.push_back(static_cast<int64_t>(value));
  }
  return values;
}

Result<Json> Narrowed(const ShardedTensor& tensor, const Json& json) {
  const auto parts = tensor.Narrow(json["dim"], json["start"], json["length"]);
  if (!parts.ok()) return parts.status();
  Json result = Json::array();
  for (const ShardedTensor& part : *parts) {
    result.push_back({{"local_shape", part.local_shape},
                      {"global_shape", part.global_shape},
                      {"global_offset", part.global_offset},
                      {"axis_fragmentations", *part.axis_fragmentations},
                      {"prepend_axis_num", part.prepend_axis_num},
                      {"flattened_range", RangeJson(part.flattened_range)},
                      {"data", ValuesOf(part.data)}});
  }
  return result;
}

Result<Json> Distributed(const Json& json) {
  std::vector<ShardHolders> shards;
  const auto cross = json["cross"].get<std::vector<std::string>>();
  for (const Json& shard : json["shards"]) {
    const std::string key = shard[0];
    shards.push_back(
        {{key, {}, std::nullopt},
         shard[1].get<std::vector<int>>(),
         shard[2].get<uint64_t>(),
         std::find(cross.begin(), cross.end(), key) != cross.end()});
  }
  const auto owners = DistributeShardsToRanks(shards, json["num_ranks"]);
  if (!owners.ok()) return owners.status();
  Json result = Json::object();
  for (size_t i = 0; i < shards.size(); ++i) {
    result[shards[i].id.key] = (*owners)[i];
  }
  return result;
}

Result<ShardedTensor> FlatTensor(const Json& json, int prepend) {
  const Json& range = json["flattened_range"];
  const int64_t numel = json.contains("numel")
                            ? json["numel"].get<int64_t>()
                            : range[1].get<int64_t>() - range[0].get<int64_t>();
  static Array data;  // alive while the tensor is used
  data = Counting({numel}, range[0]);
  ShardArgs args;
  args.prepend_axis_num = prepend;
  return ShardedTensor::FromRankOffsetsFlat(
      json.value("key", "k"), data.view(),
      json["non_flat_local_shape"].get<Shape>(),
      OffsetsOf(json["rank_offsets"]), FlatRange{range[0], range[1]}, args);
}

Result<ShardedTensor> PlainTensor(const Json& json, const Array& data) {
  ShardArgs args;
  args.prepend_axis_num = json["prepend_axis_num"];
  return ShardedTensor::FromRankOffsets("k", data.view(),
                                        OffsetsOf(json["rank_offsets"]), args);
}

Result<Json> CallTensor(const Json& json, const std::string& fn) {
  if (fn == "from_rank_offsets" || fn == "narrow") {
    const Array data = Counting(json["local_shape"].get<Shape>());
    const auto tensor = PlainTensor(json, data);
    if (!tensor.ok()) return tensor.status();
    return fn == "narrow" ? Narrowed(*tensor, json) : Derived(*tensor);
  }
  if (fn == "from_rank_offsets_flat" || fn == "narrow_flat") {
    const auto tensor = FlatTensor(json, json.value("prepend_axis_num", 0));
    if (!tensor.ok()) return tensor.status();
    return fn == "narrow_flat" ? Narrowed(*tensor, json) : Derived(*tensor);
  }
  if (fn == "sharded_tensor") return Derived(TensorOf(json));
  const auto chunks = TensorOf(json).MaxAllowedChunks();
  return chunks.ok() ? Result<Json>(*chunks) : Result<Json>(chunks.status());
}

Result<Json> Call(const Json& json, const std::string& fn) {
  if (fn == "is_main_replica") {
    return Json(IsMainReplica(ReplicaOf(json["replica_id"])));
  }
  if (fn == "unique_key") {
    const ShardedObject object = {json["key"],
                                  json["global_shape"].get<Shape>(),
                                  json["global_offset"].get<Shape>(),
                                  {},
                                  ""};
    return Json(object.UniqueKey());
  }
  if (fn == "empty_from_unique_key") {
    const auto object = ShardedObject::EmptyFromUniqueKey(
        json["unique_key"].get<std::string>());
    if (!object.ok()) return object.status();
    return Json({{"key", object->key},
                 {"global_shape", object->global_shape},
                 {"global_offset", object->global_offset}});
  }
  if (fn == "distribute_shards_to_ranks") return Distributed(json);
  if (fn == "validate_sharding_integrity") {
    const Status status = ValidateShardingIntegrity(RanksOf(json["ranks"]));
    return status.ok() ? Result<Json>(Json("valid")) : Result<Json>(status);
  }
  return CallTensor(json, fn);
}

void CheckError(const Status& status, const Json& want) {
  const auto error = ErrorOf(status);
  ASSERT_TRUE(error) << status.ToString();
  EXPECT_EQ(Json(error->code), want["code"]) << error->text;
  EXPECT_EQ(Json(error->python_class), want["class"]) << error->text;
  const std::string message = want["message"];
  if (message.find("{CKPT}") == std::string::npos) {
    EXPECT_NE(error->text.find(message), std::string::npos)
        << error->text << "\nwants " << message;
  }
}

std::vector<Json> UnitCases(bool saves) {
  std::vector<Json> cases;
  const Json all = ReadJson(CorpusRoot() + "/units/expected.json");
  for (const Json& json : all["cases"]) {
    if ((json["fn"] == "save") == saves) cases.push_back(json);
  }
  return cases;
}

TEST(UnitCases, GiveTheRecordedValueOrError) {
  const auto cases = UnitCases(false);
  EXPECT_EQ(cases.size(), 79u);
  for (const Json& json : cases) {
    SCOPED_TRACE(json["id"].get<std::string>());
    const Result<Json> got = Call(json, json["fn"]);
    const Json& want = json["expect"];
    if (want["status"] == "error") {
      CheckError(got.status(), want);
    } else {
      ASSERT_TRUE(got.ok()) << got.status().ToString();
      EXPECT_EQ(*got, want["value"]);
    }
  }
}

Result<Stats> SaveAsRecorded(const Json& json, const std::string& directory) {
  // The values of the elements do not matter.
  static const std::string zeros(1024, '\0');
  RankState rank = RankOf(json["entries"]);
  for (ShardedTensor& tensor : rank.tensors) {
    Shape shape = tensor.local_shape;
    if (tensor.flattened_range) {
      shape = {tensor.flattened_range->stop - tensor.flattened_range->start};
    }
    tensor.data = {tensor.dtype, zeros.data(), shape,
                   ContiguousStrides(shape, DTypeBytes(tensor.dtype))};
  }
  SaveCheckpointOptions options;
  options.validate_access_integrity = json.value("validate", true);
  options.zarr.store_zero_d = false;
  if (json.contains("strategy")) {
    options.config.sharded_backend = json["strategy"][0].get<std::string>();
    options.config.sharded_backend_version = json["strategy"][1].get<int64_t>();
  }
  return SaveCheckpoint({&rank, 1}, "common", directory, options);
}

TEST(UnitCases, SavesFailAndLeaveFilesAsRecorded) {
  for (const Json& json : UnitCases(true)) {
    SCOPED_TRACE(json["id"].get<std::string>());
    // These cases test keyword arguments of the Python call.
    if (json.contains("async") || json.contains("common_strategy")) continue;
    ScratchDirectory scratch;
    const std::string directory = scratch / "ckpt";
    const std::string pre = json.value("pre", "");
    if (pre != "no_dir") fs::create_directory(directory);
    if (pre == "save_first") {
      ASSERT_TRUE(SaveAsRecorded(json, directory).ok());
    }
    const auto saved = SaveAsRecorded(json, directory);
    const Json& want = json["expect"];
    EXPECT_EQ(saved.ok(), want["status"] == "ok") << saved.status().ToString();
    if (!saved.ok()) CheckError(saved.status(), want);
    std::set<std::string> left;
    if (fs::exists(directory)) {
      for (const auto& entry : fs::recursive_directory_iterator(directory)) {
        if (!entry.is_regular_file()) continue;
        left.insert(fs::relative(entry.path(), directory));
      }
    }
    std::set<std::string> want_left;
    for (const std::string path : want["files_left"]) {
      // holdfast writes no lock files.
      if (path.find(".sync/") == path.npos) want_left.insert(path);
    }
    EXPECT_EQ(left, want_left);
  }
}

TEST(PythonText, QuotesAsPythonDoes) {
  EXPECT_EQ(PythonRepr("k"), "'k'");
  EXPECT_EQ(PythonRepr("it's"), "\"it's\"");
  EXPECT_EQ(PythonRepr("'\"\\\n"), "'\\'\"\\\\\\n'");
  EXPECT_EQ(PythonRepr("\xff"), "'\\xff'");
  EXPECT_EQ(PythonRepr("\xc3\xa4"), "'\xc3\xa4'");
}

}  // namespace
}  // namespace holdfast::megatron
