// Replays the golden checkpoints: compares saves byte for byte, and loads by
// digest or error code.
#include <gtest/gtest.h>

#include <set>
#include <thread>

#include "foreign/megatron/corpus_test_util.h"

namespace holdfast::megatron {
namespace {

namespace fs = std::filesystem;

// The elements that a rank holds, by tensor.
struct CorpusData {
  std::map<std::string, Array> tensors;
  std::vector<Array> flat;  // flattened shards point into these

  void Fill(ShardedTensor& tensor) {
    const Box box = {tensor.global_offset, tensor.BoxShape()};
    ConstArrayView view = Subview(tensors.at(tensor.key).view(), box);
    const auto prepended = tensor.prepend_axis_num;
    view.shape.erase(view.shape.begin(), view.shape.begin() + prepended);
    view.strides.erase(view.strides.begin(), view.strides.begin() + prepended);
    if (tensor.flattened_range) {
      const std::string bytes = PackedBytes(view);
      const FlatRange range = *tensor.flattened_range;
      flat.push_back(
          Array::FromBytes(view.dtype, {range.stop - range.start},
                           bytes.data() + static_cast<size_t>(range.start) *
                                              DTypeBytes(view.dtype)));
      view = flat.back().view();
    }
    tensor.data = view;
  }
};

std::string ObjectFileOf(const std::string& ckpt, const ShardedObject& object) {
  const auto bytes = ReadObjectFile(ckpt, object);
  EXPECT_TRUE(bytes.ok()) << bytes.status().ToString();
  return bytes.ok() ? *bytes : "";
}

class CorpusTest : public testing::TestWithParam<std::string> {
 protected:
  CorpusTest()
      : directory_(CorpusRoot() + "/" + GetParam()),
        ckpt_(directory_ + "/ckpt"),
        expected_(ReadJson(directory_ + "/expected.json")) {
    for (const auto& [key, tensor] : expected_["tensors"].items()) {
      const bool is_saved = tensor.contains("seed") || tensor.contains("hex");
      if (is_saved) data_.tensors.emplace(key, CorpusTensor(tensor));
    }
  }

  std::vector<RankState> SavedRanks() {
    std::vector<RankState> ranks = RanksOf(expected_["save"]["ranks"]);
    for (RankState& rank : ranks) {
      for (ShardedTensor& tensor : rank.tensors) data_.Fill(tensor);
      for (ShardedObject& object : rank.objects) {
        if (IsMainReplica(object.replica_id)) {
          object.data = ObjectFileOf(ckpt_, object);
        }
      }
    }
    return ranks;
  }

  bool IsNormalized(const std::string& key) const {
    return expected_["tensors"].contains(key) &&
           expected_["tensors"][key].value("nan_normalized", false);
  }

  // Checks that exactly the recorded files exist, with their bytes.
  void CheckFiles(const std::string& saved) {
    const Json foreign = expected_.value("foreign_arrays", Json::array());
    std::set<std::string> want;
    for (const Json& file : expected_["files"]) {
      const std::string path = file["path"];
      const std::string top = path.substr(0, path.find('/'));
      const bool is_foreign =
          std::find(foreign.begin(), foreign.end(), top) != foreign.end();
      if (file.contains("lock") || is_foreign) continue;
      want.insert(path);
      if (!file.contains("opaque")) CheckFile(saved, path, top);
    }
    std::set<std::string> got;
    for (const auto& entry : fs::recursive_directory_iterator(saved)) {
      if (!entry.is_regular_file()) continue;
      got.insert(fs::relative(entry.path(), saved));
    }
    // Releases before 0.8 named object files differently.
    if (GetParam() == "w2_legacy_v07") return;
    EXPECT_EQ(got, want);
  }

  void CheckFile(const std::string& saved, const std::string& path,
                 const std::string& key) {
    std::string got = ReadTestFile(saved + "/" + path);
    if (IsNormalized(key) && !path.ends_with(".zarray")) {
      got = NormalizeNans(got, [](uint16_t bits) {
        return static_cast<uint16_t>((bits & 0x8000) | 0x7FC0);
      });
    }
    EXPECT_EQ(got, ReadTestFile(ckpt_ + "/" + path)) << path;
  }

  const std::string directory_;
  const std::string ckpt_;
  const Json expected_;
  CorpusData data_;
  ScratchDirectory scratch_;
};

TEST_P(CorpusTest, SavesByteForByteInOneCall) {
  const std::string target = scratch_ / "saved";
  fs::create_directory(target);
  SaveCheckpointOptions options;
  options.zarr.sync = false;
  const auto saved = SaveCheckpoint(
      SavedRanks(), ReadTestFile(ckpt_ + "/common.pt"), target, options);
  ASSERT_TRUE(saved.ok()) << saved.status().ToString();
  CheckFiles(target);
}

TEST_P(CorpusTest, SavesByteForByteInPhasesOfManyRanks) {
  const std::string target = scratch_ / "saved";
  fs::create_directory(target);
  const std::vector<RankState> ranks = SavedRanks();
  const ZarrSaveShardedStrategy strategy;
  std::vector<Status> failures(ranks.size());
  const auto on_all_ranks = [&](const auto& phase) {
    std::vector<std::thread> threads;
    for (size_t i = 0; i < ranks.size(); ++i) {
      threads.emplace_back([&, i] {
        if (failures[i].ok()) failures[i] = phase(ranks[i]);
      });
    }
    for (std::thread& thread : threads) thread.join();
  };
  ASSERT_TRUE(WriteCommonFile(target, ReadTestFile(ckpt_ + "/common.pt")).ok());
  on_all_ranks([&](const RankState& rank) -> Status {
    const Status status = WriteObjectFiles(target, rank.objects);
    return status.ok() ? strategy.CreateArrays(rank.tensors, target) : status;
  });
  on_all_ranks([&](const RankState& rank) {
    return strategy.WriteShards(rank.tensors, target).status();
  });
  on_all_ranks([&](const RankState& rank) {
    return strategy.CheckWritten(rank.tensors, target);
  });
  for (const Status& failure : failures) {
    ASSERT_TRUE(failure.ok()) << failure.ToString();
  }
  ASSERT_TRUE(SaveConfig({}, target).ok());
  CheckFiles(target);
}

// A load whose outcome the corpus records.
class LoadCase {
 public:
  LoadCase(const Json& json, const Json& expected, const std::string& ckpt)
      : json_(json), expected_(expected), ckpt_(ckpt) {}

  void Check() {
    const Result<std::vector<RankResult>> results = Run();
    const Json& expect = json_["expect"];
    if (!results.ok()) {
      for (const Json& want : expect) CheckError(results.status(), want);
      return;
    }
    ASSERT_EQ(results->size(), expect.size());
    const bool is_integrity =
        expect[0]["status"] == "error" && expect.size() > 1 &&
        expect[1]["status"] == "ok" && !(*results)[1].status.ok();
    for (size_t i = 0; i < expect.size(); ++i) {
      if (is_integrity && i > 0) {
        // In Megatron only rank 0 notices; here every rank does.
        CheckError((*results)[i].status, expect[0]);
      } else if (expect[i]["status"] == "error") {
        CheckError((*results)[i].status, expect[i]);
      } else {
        CheckRank((*results)[i], json_["ranks"][i], expect[i]);
      }
    }
  }

 private:
  Result<std::vector<RankResult>> Run() {
    LoadCheckpointOptions options;
    options.zarr.mode =
        json_["strategy"] == "zarr" ? LoadMode::kZarr : LoadMode::kTensorStore;
    options.zarr.absent_chunks = AbsentChunks::kFill;
    options.validate_access_integrity = json_["validate_access_integrity"];
    if (!json_["strict"].is_null()) {
      const auto strict = ParseStrictFlag(json_["strict"].get<std::string>());
      if (!strict.ok()) return strict.status();
      options.strict = *strict;
    }
    auto results = LoadCheckpoint(RanksOf(json_["ranks"]), ckpt_, options);
    if (!results.ok()) return results;
    const auto common = ReadCommonFile(ckpt_);
    return common.ok() ? std::move(results) : common.status();
  }

  void CheckError(const Status& status, const Json& want) {
    const auto error = ErrorOf(status);
    ASSERT_TRUE(error) << status.ToString();
    EXPECT_EQ(Json(error->code), want["code"]) << error->text;
    EXPECT_EQ(Json(error->python_class), want["class"]) << error->text;
    if (!want.contains("contains")) return;
    std::string fragment = want["contains"];
    if (const size_t at = fragment.find("{CKPT}"); at != fragment.npos) {
      fragment.replace(at, 6, ckpt_);
    }
    EXPECT_NE(error->text.find(fragment), std::string::npos)
        << error->text << "\nwants " << fragment;
  }

  void CheckRank(const RankResult& got, const Json& entries, const Json& want) {
    ASSERT_TRUE(got.status.ok()) << got.status.ToString();
    size_t tensor = 0;
    size_t object = 0;
    for (size_t i = 0; i < entries.size(); ++i) {
      const Json& entry = entries[i];
      const Json& result = want["results"][i];
      if (entry["kind"] == "object") {
        EXPECT_EQ(!got.objects[object++].has_value(),
                  result.value("absent", false));
      } else if (entry["kind"] == "factory") {
        CheckFactory(got, tensor, entry, result);
      } else if (entry["kind"] == "tensor") {
        const Json& range = entry["flattened_range"];
        if (!range.is_null() && range[0] == range[1]) {
          EXPECT_TRUE(result.value("absent", false));
          continue;
        }
        CheckTensor(got.tensors[tensor++], entry["key"], result);
      }
    }
    if (!want.contains("missing_keys")) return;
    EXPECT_EQ(Json(got.strict.missing), want["missing_keys"]);
    EXPECT_EQ(Json(got.strict.unexpected), want["unexpected_keys"]);
  }

  void CheckFactory(const RankResult& got, size_t& tensor, const Json& entry,
                    const Json& result) {
    std::vector<Array> parts;
    for (size_t i = 0; i < entry["parts"].size(); ++i) {
      ASSERT_TRUE(got.tensors[tensor]);
      parts.push_back(got.tensors[tensor++]->array);
    }
    const auto whole = Concatenate(parts, entry["axis"]);
    ASSERT_TRUE(whole.ok());
    CheckTensor(LoadedTensor{*whole, {}}, entry["key"], result);
  }

  void CheckTensor(const std::optional<LoadedTensor>& got,
                   const std::string& key, const Json& want) {
    ASSERT_EQ(!got.has_value(), want.value("absent", false)) << key;
    if (!got) return;
    EXPECT_EQ(Json(DTypeName(got->array.dtype())), want["dtype"]) << key;
    EXPECT_EQ(Json(got->array.shape()), want["shape"]) << key;
    std::string bytes = PackedBytes(got->array.view());
    if (expected_["tensors"].contains(key) &&
        expected_["tensors"][key].value("nan_normalized", false)) {
      bytes = NormalizeNans(bytes, [](uint16_t) { return uint16_t{0x7FC0}; });
    }
    EXPECT_EQ(Json(Sha256Hex(bytes)), want["sha256"]) << key;
  }

  const Json& json_;
  const Json& expected_;
  const std::string ckpt_;
};

void Mutate(const std::string& ckpt, const Json& changes) {
  for (const Json& change : changes) {
    const fs::path path = ckpt + "/" + change["path"].get<std::string>();
    const std::string op = change["op"];
    if (op == "delete") {
      fs::remove_all(change["path"] == "." ? fs::path(ckpt) : path);
    } else if (op == "write") {
      WriteTestFile(path, change["text"].get<std::string>());
    } else if (op == "truncate") {
      fs::resize_file(path, change["size"].get<uint64_t>());
    } else {
      ASSERT_EQ(op, "append");
      const std::string hex = change["hex"];
      std::string bytes = ReadTestFile(path);
      for (size_t i = 0; i < hex.size(); i += 2) {
        bytes += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
      }
      WriteTestFile(path, bytes);
    }
  }
}

TEST_P(CorpusTest, LoadsAsRecorded) {
  const Json loads = ReadJson(directory_ + "/loads.json");
  for (const Json& json : loads["cases"]) {
    if (json["api"] != "load") continue;
    SCOPED_TRACE(json["id"].get<std::string>());
    std::string ckpt = ckpt_;
    if (!json["mutate"].empty()) {
      ckpt = scratch_ / json["id"].get<std::string>();
      fs::copy(ckpt_, ckpt, fs::copy_options::recursive);
      Mutate(ckpt, json["mutate"]);
    }
    LoadCase(json, expected_, ckpt).Check();
  }
}

Json EntryOf(const ShardedTensor& tensor) {
  return {{"kind", "tensor"},
          {"key", tensor.key},
          {"dtype", DTypeName(tensor.dtype)},
          {"global_shape", tensor.global_shape},
          {"local_shape", tensor.local_shape},
          {"global_offset", tensor.global_offset},
          {"axis_fragmentations", *tensor.axis_fragmentations}};
}

Json EntryOf(const ShardedObject& object) {
  return {{"kind", "object"},
          {"key", object.key},
          {"global_shape", object.global_shape},
          {"global_offset", object.global_offset}};
}

TEST_P(CorpusTest, ListsAsRecorded) {
  const Json loads = ReadJson(directory_ + "/loads.json");
  for (const Json& json : loads["cases"]) {
    const std::string api = json["api"];
    if (api != "load_tensors_metadata" && api != "load_sharded_metadata") {
      continue;
    }
    SCOPED_TRACE(api);
    const Json& want = json["expect"][0];
    const auto metadata = LoadShardedMetadata(ckpt_);
    if (want["status"] == "error") {
      ASSERT_FALSE(metadata.ok());
      EXPECT_EQ(Json(MegatronErrorCode(metadata.status())), want["code"]);
      continue;
    }
    ASSERT_TRUE(metadata.ok()) << metadata.status().ToString();
    Json entries = Json::object();
    for (const auto& [key, tensor] : metadata->tensors) {
      entries[key] = EntryOf(tensor);
    }
    if (api == "load_sharded_metadata") {
      for (const auto& [name, object] : metadata->objects) {
        entries[name] = EntryOf(object);
      }
    }
    EXPECT_EQ(entries, want["entries"]);
  }
}

INSTANTIATE_TEST_SUITE_P(All, CorpusTest, testing::ValuesIn(ZarrCheckpoints()),
                         [](const auto& info) { return info.param; });

// Megatron converts NaNs through float32; holdfast keeps their bits.
TEST(Bfloat16, KeepsTheBitsOfNans) {
  const uint16_t bits[] = {0x7F81, 0xFFA5, 0x7FC0, 0x8000};
  const Array data = Array::FromBytes(DType::kBfloat16, {4}, bits);
  const auto tensor = ShardedTensor::FromRankOffsets("w", data.view(), {});
  ASSERT_TRUE(tensor.ok());
  ScratchDirectory scratch;
  const RankState rank = {{*tensor}, {}};
  ASSERT_TRUE(SaveCheckpoint({&rank, 1}, "", scratch.path()).ok());
  const auto loaded = LoadFromArray(tensor->WithoutData(), scratch.path());
  ASSERT_TRUE(loaded.ok()) << loaded.status().ToString();
  EXPECT_EQ(PackedBytes(loaded->array.view()), PackedBytes(data.view()));
}

}  // namespace
}  // namespace holdfast::megatron
