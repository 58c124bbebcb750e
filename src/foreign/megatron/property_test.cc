// Compares fast code with slow, obvious code; tests crashes and damage.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <random>
#include <set>

#include "foreign/megatron/corpus_test_util.h"
#include "foreign/megatron/flat_boxes.h"
#include "foreign/megatron/open.h"
#include "ground/tensor/grid.h"
#include "holdfast/checkpoint.h"

namespace holdfast::megatron {
namespace {

namespace fs = std::filesystem;
using Random = std::mt19937_64;

int64_t Pick(Random& random, int64_t low, int64_t high) {
  return std::uniform_int_distribution<int64_t>(low, high)(random);
}

Shape RandomShape(Random& random, size_t rank, int64_t extent_max) {
  Shape shape;
  for (size_t i = 0; i < rank; ++i) {
    shape.push_back(Pick(random, 1, extent_max));
  }
  return shape;
}

// Returns an int32 array of 0, 1, 2, …
Array Numbered(const Shape& shape) {
  std::vector<int32_t> values;
  for (int64_t i = 0; i < ElementCount(shape); ++i) {
    values.push_back(static_cast<int32_t>(i));
  }
  return Array::FromBytes(DType::kInt32, shape, values.data());
}

TEST(FlatBoxes, HoldTheElementsOfTheRangeInOrder) {
  Random random(1);
  for (int round = 0; round < 2000; ++round) {
    const Shape shape = RandomShape(random, Pick(random, 0, 4), 4);
    const int64_t count = ElementCount(shape);
    FlatRange range;
    range.start = Pick(random, 0, count);
    range.stop = Pick(random, range.start, count);
    const Array whole = Numbered(shape);
    std::string bytes;
    for (const FlatBox& flat : FlatBoxes(shape, range)) {
      EXPECT_EQ(static_cast<size_t>(flat.start) * 4, bytes.size());
      bytes += PackedBytes(Subview(whole.view(), flat.box));
    }
    EXPECT_EQ(bytes,
              PackedBytes(whole.view())
                  .substr(static_cast<size_t>(range.start) * 4,
                          static_cast<size_t>(range.stop - range.start) * 4));
    EXPECT_LE(FlatBoxes(shape, range).size(),
              std::max<size_t>(1, 2 * shape.size()));
  }
}

// A global tensor that is divided into a grid whose parts belong to ranks.
struct Dealt {
  Array whole;
  Shape fragments;
  std::vector<RankState> ranks;
};

// Returns a random division of a random tensor among `rank_count` ranks. The
// `prepend` leading axes have extent 1. With `flat`, each part's elements are
// divided again into ranges.
Dealt Deal(Random& random, bool flat, size_t rank_count) {
  const size_t rank = static_cast<size_t>(Pick(random, flat ? 1 : 0, 3));
  const int prepend =
      static_cast<int>(Pick(random, 0, static_cast<int64_t>(rank)));
  Dealt dealt;
  Shape shape;
  Shape part;
  for (size_t i = 0; i < rank; ++i) {
    dealt.fragments.push_back(Pick(random, 1, 3));
    part.push_back(static_cast<int>(i) < prepend ? 1 : Pick(random, 1, 4));
    shape.push_back(dealt.fragments[i] * part[i]);
  }
  dealt.whole = Numbered(shape);
  dealt.ranks.resize(rank_count);
  const ChunkGrid grid = {shape, part};
  for (int64_t n = 0; n < grid.ChunkCount(); ++n) {
    const Box box = grid.ChunkBox(grid.ChunkIndex(n));
    ShardedTensor tensor;
    tensor.key = "w";
    tensor.dtype = DType::kInt32;
    tensor.prepend_axis_num = prepend;
    tensor.local_shape = Shape(part.begin() + prepend, part.end());
    tensor.global_shape = shape;
    tensor.global_offset = box.origin;
    tensor.axis_fragmentations = dealt.fragments;
    tensor.data = Subview(dealt.whole.view(), box);
    tensor.data.shape = tensor.local_shape;
    tensor.data.strides.erase(tensor.data.strides.begin(),
                              tensor.data.strides.begin() + prepend);
    const auto owner = [&] {
      return static_cast<size_t>(
          Pick(random, 0, static_cast<int64_t>(rank_count) - 1));
    };
    if (!flat) {
      dealt.ranks[owner()].tensors.push_back(tensor);
      continue;
    }
    const std::string bytes = PackedBytes(tensor.data);
    for (int64_t at = 0, count = ElementCount(tensor.local_shape);
         at < count;) {
      const int64_t stop = Pick(random, at + 1, count);
      tensor.flattened_range = FlatRange{at, stop};
      // Kept alive until the test ends.
      static std::vector<Array> kept;
      kept.push_back(
          Array::FromBytes(DType::kInt32, {stop - at}, bytes.data() + at * 4));
      tensor.data = kept.back().view();
      dealt.ranks[owner()].tensors.push_back(tensor);
      at = stop;
    }
  }
  return dealt;
}

// Returns whether main replicas hold each element exactly once, by counting
// each element.
bool EachElementOnce(const Dealt& dealt) {
  std::vector<int> counts(static_cast<size_t>(dealt.whole.element_count()), 0);
  for (const RankState& rank : dealt.ranks) {
    for (const ShardedTensor& tensor : rank.tensors) {
      if (!IsMainReplica(tensor.replica_id)) continue;
      const Box box = {tensor.global_offset, tensor.BoxShape()};
      const std::string numbers = PackedBytes(Subview(dealt.whole.view(), box));
      const FlatRange range = tensor.flattened_range.value_or(
          FlatRange{0, ElementCount(tensor.local_shape)});
      for (int64_t i = range.start; i < range.stop; ++i) {
        int32_t number;
        std::memcpy(&number, numbers.data() + i * 4, 4);
        ++counts[static_cast<size_t>(number)];
      }
    }
  }
  return std::all_of(counts.begin(), counts.end(),
                     [](int count) { return count == 1; });
}

TEST(Integrity, AgreesWithCountingEveryElement) {
  Random random(2);
  int bad = 0;
  for (int round = 0; round < 3000; ++round) {
    Dealt dealt = Deal(random, round % 2 == 1, 3);
    auto& tensors = dealt.ranks[static_cast<size_t>(round) % 3].tensors;
    const int64_t change = Pick(random, 0, 4);
    if (!tensors.empty() && change > 0) {
      const auto i =
          static_cast<size_t>(Pick(random, 0, std::ssize(tensors) - 1));
      if (change == 1) tensors.push_back(tensors[i]);
      if (change == 2) tensors[i].replica_id = ReplicaId::Tuple({0, 1});
      if (change == 3 && tensors.size() > 1) {
        tensors.erase(tensors.begin() + static_cast<std::ptrdiff_t>(i));
      }
      if (change == 4) {
        tensors.push_back(tensors[i]);
        tensors.back().replica_id = ReplicaId::Int(1);
      }
    }
    bool has_any = false;
    for (const RankState& rank : dealt.ranks) has_any |= !rank.tensors.empty();
    if (!has_any) continue;
    const bool want = EachElementOnce(dealt);
    const Status got = ValidateShardingIntegrity(dealt.ranks);
    EXPECT_EQ(got.ok(), want) << got.ToString();
    bad += want ? 0 : 1;
    if (!got.ok()) {
      EXPECT_NE(got.message().find("Key 'w'"), std::string::npos);
    }
  }
  EXPECT_GT(bad, 500);
}

TEST(Integrity, NamesTheRegionThatIsMissingOrDoubled) {
  const Array data = Numbered({4, 3});
  const auto part = [&](int64_t rank) {
    const RankOffset offset = {0, rank, 2};
    const Box box = {{rank * 2, 0}, {2, 3}};
    return *ShardedTensor::FromRankOffsets("w", Subview(data.view(), box),
                                           {&offset, 1});
  };
  std::vector<RankState> ranks = {{{part(0)}, {}}, {{part(0)}, {}}};
  const Status status = ValidateShardingIntegrity(ranks);
  EXPECT_NE(status.message().find("[0:2, 0:3] 2 times (ranks 0, 1)"),
            std::string::npos)
      << status.message();
  EXPECT_NE(status.message().find("[2:4, 0:3] by no rank"), std::string::npos);
}

// Returns a box of the stored array, padded with zeros to the local shape.
std::string SlowLoad(const Array& whole, const ShardedTensor& tensor) {
  Array local = *Array::Allocate(DType::kInt32, tensor.BoxShape());
  const int32_t zero = 0;
  FillStrided(local.mutable_view(), reinterpret_cast<const char*>(&zero));
  const auto common = Intersect({tensor.global_offset, tensor.BoxShape()},
                                BoxOf(whole.shape()));
  if (common) {
    CopyStrided(
        Subview(whole.view(), *common),
        Subview(local.mutable_view(), Relative(*common, tensor.global_offset)));
  }
  const std::string bytes = PackedBytes(local.view());
  if (!tensor.flattened_range) return bytes;
  const auto start = static_cast<size_t>(tensor.flattened_range->start);
  const auto stop = static_cast<size_t>(tensor.flattened_range->stop);
  return bytes.substr(start * 4, (stop - start) * 4);
}

// Returns a request at a multiple of its own extents, as the constructor
// requires.
ShardedTensor RandomRequest(Random& random, const Shape& stored) {
  ShardedTensor tensor;
  tensor.key = "w";
  tensor.dtype = DType::kInt32;
  tensor.global_shape = stored;
  tensor.allow_shape_mismatch = Pick(random, 0, 1) == 1;
  tensor.prepend_axis_num =
      static_cast<int>(Pick(random, 0, std::ssize(stored)));
  for (size_t i = 0; i < stored.size(); ++i) {
    const bool is_prepended = static_cast<int>(i) < tensor.prepend_axis_num;
    const int64_t extra = tensor.allow_shape_mismatch ? 3 : 0;
    const int64_t extent =
        is_prepended ? 1 : Pick(random, 1, stored[i] + extra);
    const int64_t last = tensor.allow_shape_mismatch ? (stored[i] - 1) / extent
                                                     : stored[i] / extent - 1;
    tensor.global_offset.push_back(Pick(random, 0, std::max<int64_t>(last, 0)) *
                                   extent);
    if (!is_prepended) tensor.local_shape.push_back(extent);
  }
  tensor.axis_fragmentations = Shape(stored.size(), 1);
  if (Pick(random, 0, 2) == 0) {
    const int64_t count = ElementCount(tensor.local_shape);
    FlatRange range;
    range.start = Pick(random, 0, count - 1);
    range.stop = Pick(random, range.start + 1, count);
    tensor.flattened_range = range;
  }
  return tensor;
}

TEST(SaveAndLoad, GiveEveryBoxAsTheSlowTwinDoes) {
  Random random(3);
  for (int round = 0; round < 60; ++round) {
    const Dealt dealt = Deal(random, round % 2 == 1, 2);
    ScratchDirectory scratch;
    SaveCheckpointOptions options;
    options.zarr.sync = false;
    const auto saved =
        SaveCheckpoint(dealt.ranks, "x", scratch.path(), options);
    ASSERT_TRUE(saved.ok()) << saved.status().ToString();
    std::vector<ShardedTensor> requests;
    for (int i = 0; i < 20; ++i) {
      requests.push_back(RandomRequest(random, dealt.whole.shape()));
    }
    const auto loaded =
        ZarrLoadShardedStrategy().Load(requests, scratch.path());
    ASSERT_TRUE(loaded.ok()) << loaded.status().ToString();
    for (size_t i = 0; i < requests.size(); ++i) {
      EXPECT_EQ(PackedBytes((*loaded)[i].array.view()),
                SlowLoad(dealt.whole, requests[i]))
          << requests[i].ToString();
    }
  }
}

TEST(SaveAndLoad, ReplicatedPaddingRepeatsTheLastRow) {
  const Array data = Numbered({2, 2});
  const auto tensor = ShardedTensor::FromRankOffsets("w", data.view(), {});
  ScratchDirectory scratch;
  const RankState rank = {{*tensor}, {}};
  ASSERT_TRUE(SaveCheckpoint({&rank, 1}, "x", scratch.path()).ok());
  ShardedTensor request = tensor->WithoutData();
  request.local_shape = request.global_shape = {3, 3};
  request.allow_shape_mismatch = true;
  ZarrLoadOptions options;
  options.pad_replicate = true;
  const int32_t want[] = {0, 1, 1, 2, 3, 3, 2, 3, 3};
  const auto whole = LoadFromArray(request, scratch.path(), options);
  ASSERT_TRUE(whole.ok());
  EXPECT_EQ(PackedBytes(whole->array.view()),
            std::string(reinterpret_cast<const char*>(want), sizeof want));
  request.flattened_range = FlatRange{4, 7};
  const auto flat = LoadFromArray(request, scratch.path(), options);
  ASSERT_TRUE(flat.ok());
  EXPECT_EQ(PackedBytes(flat->array.view()),
            std::string(reinterpret_cast<const char*>(want + 4), 12));
}

// One rank's process dies in the middle of a save.
TEST(Crash, APartialSaveIsNeverACheckpointAndNeverReadsAsZeros) {
  const Array data = Numbered({4, 64});
  std::vector<RankState> ranks(2);
  for (int64_t rank = 0; rank < 2; ++rank) {
    for (int64_t part = 0; part < 2; ++part) {
      const RankOffset offset = {0, rank * 2 + part, 4};
      const Box box = {{rank * 2 + part, 0}, {1, 64}};
      ranks[static_cast<size_t>(rank)].tensors.push_back(
          *ShardedTensor::FromRankOffsets("w", Subview(data.view(), box),
                                          {&offset, 1}));
    }
  }
  ScratchDirectory scratch;
  const ZarrSaveShardedStrategy strategy;
  for (const RankState& rank : ranks) {
    ASSERT_TRUE(strategy.CreateArrays(rank.tensors, scratch.path()).ok());
  }
  ASSERT_TRUE(strategy.WriteShards(ranks[0].tensors, scratch.path()).ok());
  const pid_t child = fork();
  if (child == 0) {
    // Writes only the first of its two shards.
    (void)strategy.WriteShards({ranks[1].tensors.data(), 1}, scratch.path());
    _exit(0);
  }
  int state = 0;
  ASSERT_EQ(waitpid(child, &state, 0), child);
  EXPECT_EQ(MegatronErrorCode(OpenConfig(scratch.path()).status()),
            "NOT_A_DIST_CKPT");
  EXPECT_EQ(OpenMegatronZarr(Place(scratch.path())).status().code(),
            StatusCode::kNotFound);
  EXPECT_EQ(MegatronErrorCode(
                strategy.CheckWritten(ranks[0].tensors, scratch.path())),
            "ABSENT_CHUNK");
  // Even with the marker, the missing chunks are not read as zeros.
  ASSERT_TRUE(SaveConfig({}, scratch.path()).ok());
  const auto opened = OpenMegatronZarr(Place(scratch.path()));
  ASSERT_TRUE(opened.ok());
  const auto read = (*opened)->Read(0);
  EXPECT_EQ(read.status().code(), StatusCode::kDataLoss);
  EXPECT_NE(read.status().message().find("w/3.0"), std::string::npos)
      << read.status().message();
  const auto report = VerifyMegatronZarr(Place(scratch.path()));
  ASSERT_TRUE(report.ok());
  EXPECT_EQ(report->report.damages.size(), 2u);  // and no common.pt
  EXPECT_EQ((*opened)->leaves().back().name, "common_state");
  EXPECT_EQ((*opened)->leaves().back().problem.code(), StatusCode::kDataLoss);
}

TEST(Refused, KeysThatLeaveTheDirectoryOrAreNotKeys) {
  const Array data = Numbered({2});
  for (const std::string_view key : std::initializer_list<std::string_view>{
           "", "/abs", "..", "a/../b", "a//b", "a/", ".", "k.zip", "k.n5",
           "k.sync", "\xff\xfe", "metadata.json",
           std::string_view("a\0b", 3)}) {
    ScratchDirectory scratch;
    const auto tensor =
        ShardedTensor::FromRankOffsets(std::string(key), data.view(), {});
    ASSERT_TRUE(tensor.ok());
    const RankState rank = {{*tensor}, {}};
    EXPECT_EQ(MegatronErrorCode(
                  SaveCheckpoint({&rank, 1}, "x", scratch.path()).status()),
              "REFUSED_KEY")
        << key;
    EXPECT_FALSE(fs::exists(scratch / "metadata.json"));
    if (key == ".." || key == "/abs" || key == "a/../b") {
      EXPECT_EQ(
          MegatronErrorCode(LoadFromArray(*tensor, scratch.path()).status()),
          "REFUSED_KEY");
    }
  }
}

TEST(Refused, OtherBackEndsAndVersionsSayWhatTheyAre) {
  const std::string torch_dist = CorpusRoot() + "/pair_torch_dist_w2/ckpt";
  const Status status = OpenMegatronZarr(Place(torch_dist)).status();
  EXPECT_NE(status.message().find("torch_dist"), std::string::npos);
  EXPECT_NE(status.message().find("holdfast convert"), std::string::npos);
  const ZarrLoadShardedStrategy strategy;
  EXPECT_TRUE(strategy.CheckVersionCompatibility(int64_t{1}).ok());
  const Status newer = strategy.CheckVersionCompatibility(int64_t{2});
  EXPECT_NE(newer.message().find("newer"), std::string::npos);
}

TEST(Metadata, TextIsPythonsAndReadsBack) {
  EXPECT_EQ(ConfigText({}),
            R"({"sharded_backend": "zarr", "sharded_backend_version": 1, )"
            R"("common_backend": "torch", "common_backend_version": 1})");
  CheckpointingConfig config;
  config.sharded_backend = std::string("\xc3\xa4\"");
  config.sharded_backend_version = std::monostate();
  const auto parsed = ParseConfig(ConfigText(config));
  ASSERT_TRUE(parsed.ok()) << parsed.status().ToString();
  EXPECT_EQ(*parsed, config);
  EXPECT_EQ(ConfigValueRepr(parsed->sharded_backend_version), "None");
}

TEST(Save, BoolsAreWrittenAsZeroAndOne) {
  const std::string bytes("\x00\x01\x02\xff\x80\x00", 6);
  const std::string want("\0\1\1\1\1\0", 6);
  const Array data = Array::FromBytes(DType::kBool, {2, 3}, bytes.data());
  const Shape transposed = {3, 2};
  const ConstArrayView columns{
      DType::kBool, data.view().data, transposed, {1, 3}};
  RankState rank;
  rank.tensors = {*ShardedTensor::FromRankOffsets("rows", data.view(), {}),
                  *ShardedTensor::FromRankOffsets("columns", columns, {})};
  ScratchDirectory scratch;
  ASSERT_TRUE(SaveCheckpoint({&rank, 1}, "x", scratch.path()).ok());
  EXPECT_EQ(ReadTestFile(scratch / "rows/0.0"), want);
  EXPECT_EQ(ReadTestFile(scratch / "columns/0.0"),
            std::string("\0\1\1\1\1\0", 6));
}

TEST(Verify, FindsEveryKindOfDamage) {
  const Array data = Numbered({4, 2});
  std::vector<RankState> ranks(1);
  for (int64_t part = 0; part < 4; ++part) {
    const RankOffset offset = {0, part, 4};
    const Box box = {{part, 0}, {1, 2}};
    ranks[0].tensors.push_back(*ShardedTensor::FromRankOffsets(
        "w", Subview(data.view(), box), {&offset, 1}));
  }
  const std::string common =
      ReadTestFile(CorpusRoot() + "/w2_tp/ckpt/common.pt");
  ScratchDirectory scratch;
  ASSERT_TRUE(SaveCheckpoint(ranks, common, scratch.path()).ok());
  const auto whole = VerifyMegatronZarr(Place(scratch.path()));
  ASSERT_TRUE(whole.ok());
  EXPECT_TRUE(whole->report.damages.empty());
  EXPECT_EQ(whole->report.chunk_count, 4u);
  fs::remove(scratch / "w/1.0");
  fs::resize_file(scratch / "w/2.0", 7);
  fs::create_directory(scratch / "bad");
  WriteTestFile(scratch / "bad/.zarray", "{");
  WriteTestFile(scratch / "o/shard_0_2.pt", common);
  WriteTestFile(scratch / "common.pt", common.substr(0, 100));
  const auto report = VerifyMegatronZarr(Place(scratch.path()));
  ASSERT_TRUE(report.ok());
  std::set<std::string> files;
  for (const Damage& damage : report->report.damages) files.insert(damage.file);
  EXPECT_EQ(files, (std::set<std::string>{"w/1.0", "w/2.0", "bad/.zarray", "o",
                                          "common.pt"}));
}

}  // namespace
}  // namespace holdfast::megatron
