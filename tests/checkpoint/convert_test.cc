// Convert on complete checkpoints: equal values, the requested layout, one pass
// over the source, bounded memory, several ranks.
#include "holdfast/tools/convert.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <random>
#include <thread>

#include "checkpoint/test_trees.h"
#include "holdfast/process_group.h"
#include "holdfast/shard_plan.h"
#include "tools/convert/check_copy.h"
#include "twins/scratch_directory.h"

namespace holdfast {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

Tree MixedTree() {
  Tree tree = AllKindsTree();
  auto traits = std::make_shared<ArrayTraits>();
  traits->sharding_json = ShardingToJson(
      NamedSharding{{.axis_names = {"x"}, .shape = {4}}, {{"x"}}});
  traits->write_shape = {16, 10};
  tree.Add("sharded",
           Tree::JaxArray(RandomArray(DType::kInt16, {64, 10}, 200), traits));
  tree.Add("wide", Tree(RandomArray(DType::kFloat32, {3, 5000}, 201)));
  return tree;
}

// Runs `body` as each of `size` ranks, on threads.
void OnRanks(int64_t size, const std::function<void(ProcessGroup*)>& body) {
  if (size == 1) return body(nullptr);
  std::vector<std::thread> threads;
  for (const auto& transport : MakeThreadTransports(size)) {
    threads.emplace_back([&body, transport] {
      const auto group = MakeProcessGroup(transport, {.timeout_seconds = 60});
      body(group.get());
    });
  }
  for (std::thread& thread : threads) thread.join();
}

Tree LoadTree(const std::string& path) {
  auto loaded = Load(path);
  EXPECT_TRUE(loaded.ok()) << loaded.status().ToString();
  return loaded.ok() ? std::move(loaded->tree) : Tree();
}

// The source has more files than are kept open, so it must still exist when the
// result is compared with it.
TEST(Convert, TakesThePlaceOfItsSource) {
  ScratchDirectory scratch;
  const std::string path = scratch.path() + "/c";
  Tree tree = MixedTree();
  for (uint32_t i = 0; i < 600; ++i) {
    tree.Add("many" + std::to_string(i),
             Tree(RandomArray(DType::kInt16, {5}, i)));
  }
  SaveOptions save;
  save.sync = false;
  save.use_ocdbt = false;
  ASSERT_TRUE(Save(path, tree, save).ok());
  const Tree before = LoadTree(path);
  ConvertOptions options;
  options.sync = false;
  options.overwrite = true;
  options.use_ocdbt = true;
  const auto converted = Convert(path, path, options);
  ASSERT_TRUE(converted.ok()) << converted.status().ToString();
  EXPECT_GT(converted->checked_bytes, 0u);
  EXPECT_TRUE(LoadTree(path) == before);
  EXPECT_TRUE(std::filesystem::exists(path + "/manifest.ocdbt"));
  EXPECT_FALSE(std::filesystem::exists(path + "/many0"));
  options.also = AlsoSafetensors();
  EXPECT_EQ(Convert(path, path, options).status().code(),
            StatusCode::kUnimplemented);
}

TEST(Convert, AnyLayoutKeepsTheTree) {
  ScratchDirectory scratch;
  std::mt19937 random(11);
  const Tree tree = MixedTree();
  for (int round = 0; round < 24; ++round) {
    SaveOptions save;
    save.sync = false;
    save.format = random() % 2 == 0 ? Format::kOrbax : Format::kOrbaxV1;
    save.zarr_format = 2 + random() % 2;
    save.use_ocdbt = random() % 2 == 0;
    save.chunk_bytes = random() % 2 == 0 ? 0 : 300 + random() % 5000;
    save.compression = static_cast<Compression>(random() % 3);
    save.custom_metadata = R"({"note": "kept"})";
    const std::string source = scratch.path() + "/s" + std::to_string(round);
    const std::string target = scratch.path() + "/t" + std::to_string(round);
    const auto saved = Save(source, tree, save);
    ASSERT_TRUE(saved.ok()) << saved.status().ToString();

    ConvertOptions convert;
    convert.sync = false;
    if (random() % 2 == 0) convert.format = Format::kOrbaxV1;
    if (random() % 2 == 0) convert.zarr_format = 2 + random() % 2;
    if (random() % 2 == 0) convert.use_ocdbt = random() % 2 == 0;
    convert.compression = static_cast<Compression>(random() % 3);
    convert.chunk_bytes = random() % 3 == 0 ? 0 : 100 + random() % 9000;
    convert.run.memory_bytes = random() % 4 == 0 ? 0 : 2000 << (random() % 8);
    convert.run.threads = 1 + random() % 4;
    const int64_t ranks = 1 + random() % 4;
    OnRanks(ranks, [&](ProcessGroup* group) {
      ConvertOptions own = convert;
      own.group = group;
      const auto converted = Convert(source, target, own);
      ASSERT_TRUE(converted.ok()) << converted.status().ToString();
      EXPECT_EQ(converted->leaf_count, 37u);
      EXPECT_EQ(converted->checked_bytes,
                converted->decoded_bytes - (8 + 8 + 1));
    });
    EXPECT_TRUE(LoadTree(target) == LoadTree(source)) << round;
    const auto report = Verify(target);
    ASSERT_TRUE(report.ok());
    EXPECT_TRUE(report->damages.empty());
    const auto opened = Open(target);
    EXPECT_EQ((*opened)->info().custom_metadata, R"({"note": "kept"})");
    EXPECT_EQ((*opened)->info().format,
              convert.format || save.format == Format::kOrbaxV1 ? "orbax-v1"
                                                                : "orbax");
  }
}

TEST(Convert, SelectedLeavesAlone) {
  ScratchDirectory scratch;
  ASSERT_TRUE(Save(scratch.path() + "/s", MixedTree()).ok());
  ConvertOptions options;
  options.names = {"list", "arrays.int4"};
  ASSERT_TRUE(
      Convert(scratch.path() + "/s", scratch.path() + "/t", options).ok());
  const auto opened = Open(scratch.path() + "/t");
  ASSERT_TRUE(opened.ok());
  EXPECT_EQ((*opened)->leaves().size(), 4u);
  options.names = {"lost"};
  EXPECT_EQ(Convert(scratch.path() + "/s", scratch.path() + "/u", options)
                .status()
                .ToString(),
            "NOT_FOUND: no leaf is named \"lost\" or lies below it");
}

TEST(Convert, ReshardsAsARunOnThatMeshSaves) {
  ScratchDirectory scratch;
  const Array array = RandomArray(DType::kFloat32, {32, 48}, 1);
  ASSERT_TRUE(
      Save(scratch.path() + "/s", Tree::Dict({{"w", Tree::JaxArray(array)}}))
          .ok());
  const NamedSharding sharding{
      {.axis_names = {"data", "model"}, .shape = {4, 2}}, {{"model"}}};
  ConvertOptions options;
  options.sharding = [&](const LeafInfo&) {
    return Result<std::optional<Sharding>>(std::optional<Sharding>(sharding));
  };
  options.chunk_bytes = 0;
  ASSERT_TRUE(
      Convert(scratch.path() + "/s", scratch.path() + "/t", options).ok());
  const auto opened = Open(scratch.path() + "/t");
  ASSERT_TRUE(opened.ok());
  const LeafInfo& leaf = (*opened)->leaves()[0];
  EXPECT_EQ(leaf.sharding_json, ShardingToJson(sharding));
  // Each shard has half of the rows; its four replicas write a quarter each.
  const auto layout = ShardPlanner::OfAll(sharding)->Layout({32, 48}, 4, {});
  EXPECT_EQ(leaf.write_shape, layout->write_shape);
  EXPECT_EQ(leaf.chunk_shape, layout->write_shape);
  EXPECT_NE(layout->write_shape, (Shape{32, 48}));
  EXPECT_EQ(*DigestLeaf(**opened, 0),
            *DigestLeaf(**Open(scratch.path() + "/s"), 0));
}

// Element i is a function of i: simulates an array larger than memory.
class CountingReader : public ArrayReader {
 public:
  Status Read(const Shape& origin, const ArrayView& target) const override {
    // Rows of 1 KiB.
    for (int64_t row = 0; row < target.shape[0]; ++row) {
      for (int64_t i = 0; i < target.shape[1]; ++i) {
        const uint64_t at = (origin[0] + row) * 256 + origin[1] + i;
        const auto value = static_cast<uint32_t>(at * 2654435761u >> 7);
        std::memcpy(
            target.data + row * target.strides[0] + i * target.strides[1],
            &value, sizeof value);
      }
    }
    return Status();
  }
};

void SaveLarge(const std::string& path, int64_t mib, uint64_t chunk_bytes) {
  SaveOptions save;
  save.sync = false;
  save.chunk_bytes = chunk_bytes;
  save.run.memory_bytes = 16 << 20;
  save.run.threads = 2;
  const Tree tree = Tree::Dict(
      {{"w", Tree::DeferredArray(DType::kUint32, {mib * 1024, 256},
                                 std::make_shared<CountingReader>())}});
  const auto saved = Save(path, tree, save);
  ASSERT_TRUE(saved.ok()) << saved.status().ToString();
}

uint64_t StoredBytes(const std::string& path) {
  return (*Open(path))->leaves()[0].stored_bytes;
}

TEST(Convert, DecodesEachStoredChunkOnceWhereMemoryAllows) {
  ScratchDirectory scratch;
  const std::string source = scratch.path() + "/s";
  SaveLarge(source, 8, 2 << 20);  // four chunks of rows
  ConvertOptions options;
  options.sync = false;
  options.chunk_bytes = 0;
  // The new chunks are columns: each needs a part of every old chunk.
  const NamedSharding columns{{.axis_names = {"x"}, .shape = {8}}, {{}, {"x"}}};
  options.sharding = [&](const LeafInfo&) {
    return Result<std::optional<Sharding>>(std::optional<Sharding>(columns));
  };
  const auto once = Convert(source, scratch.path() + "/once", options);
  ASSERT_TRUE(once.ok()) << once.status().ToString();
  // `read_bytes` does not count the array's metadata.
  EXPECT_LE(once->read_bytes, StoredBytes(source));
  EXPECT_GT(once->read_bytes, StoredBytes(source) - 1000);
  EXPECT_EQ((*Open(scratch.path() + "/once"))->leaves()[0].chunk_count, 8u);
  // With room for two of the eight columns at a time, the source is read four
  // times.
  options.run.memory_bytes = 8 << 20;
  const auto more = Convert(source, scratch.path() + "/more", options);
  ASSERT_TRUE(more.ok()) << more.status().ToString();
  EXPECT_EQ(more->read_bytes, 4 * once->read_bytes);
  EXPECT_LE(more->waiting_bytes_peak, 4u << 20);
}

uint64_t StatusKib(const std::string& field) {
  std::ifstream file("/proc/self/status");
  std::string word;
  while (file >> word) {
    uint64_t kib = 0;
    if (word == field && file >> kib) return kib;
  }
  return 0;
}

TEST(Convert, MemoryIsBounded) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the sanitizer has memory of its own";
#endif
  ScratchDirectory scratch;
  const std::string source = scratch.path() + "/s";
  SaveLarge(source, 192, 24 << 20);
  ConvertOptions options;
  options.sync = false;
  options.run.memory_bytes = 32 << 20;
  options.run.threads = 2;
  options.chunk_bytes = 4 << 20;
  // Resets the kernel's peak counter.
  if (!(std::ofstream("/proc/self/clear_refs") << "5" << std::flush)) {
    GTEST_SKIP() << "the kernel does not count peaks anew";
  }
  const uint64_t before_kib = StatusKib("VmRSS:");
  const auto converted = Convert(source, scratch.path() + "/t", options);
  ASSERT_TRUE(converted.ok()) << converted.status().ToString();
  const uint64_t peak_kib = StatusKib("VmHWM:");
  ASSERT_GT(before_kib, 0u);
  EXPECT_LE(converted->waiting_bytes_peak, 16u << 20);
  EXPECT_GT(converted->waiting_bytes_peak, 4u << 20);
  // The budget, plus what threads and codecs need in addition.
  EXPECT_LT(peak_kib - std::min(peak_kib, before_kib), (32 + 24) * 1024u);
}

TEST(Convert, DamageFailsAllRanksAndLeavesNothing) {
  ScratchDirectory scratch;
  const std::string source = scratch.path() + "/s";
  SaveOptions save;
  save.use_ocdbt = false;
  save.compression = Compression::kNone;
  save.chunk_bytes = 256;
  ASSERT_TRUE(
      Save(source,
           Tree::Dict({{"w", Tree(RandomArray(DType::kUint8, {4096}, 1))}}),
           save)
          .ok());
  {
    std::fstream file(source + "/w/9", std::ios::in | std::ios::out);
    file.seekp(7);
    file << "damage";
  }
  OnRanks(3, [&](ProcessGroup* group) {
    ConvertOptions options;
    options.group = group;
    const auto converted = Convert(source, scratch.path() + "/t", options);
    EXPECT_EQ(converted.status().code(), StatusCode::kDataLoss);
    EXPECT_THAT(converted.status().ToString(),
                AllOf(HasSubstr("rank 1"), HasSubstr("w")));
  });
  EXPECT_FALSE(std::filesystem::exists(scratch.path() + "/t"));
}

TEST(Convert, RanksHearThatThereIsNoSource) {
  ScratchDirectory scratch;
  OnRanks(3, [&](ProcessGroup* group) {
    ConvertOptions options;
    options.group = group;
    const auto converted =
        Convert(scratch.path() + "/none", scratch.path() + "/t", options);
    EXPECT_EQ(converted.status().code(), StatusCode::kNotFound);
  });
}

TEST(CheckCopy, FindsWhatDiffers) {
  ScratchDirectory scratch;
  std::vector<int32_t> values(100);
  const auto save = [&](const std::string& name, Tree more) {
    const Tree tree = Tree::Dict(
        {{"a", std::move(more)},
         {"w", Tree(Array::FromBytes(DType::kInt32, {100}, values.data()))}});
    EXPECT_TRUE(Save(scratch.path() + "/" + name, tree).ok());
    return OpenCheckpoint(Place(scratch.path() + "/" + name)).value();
  };
  const auto source = save("s", Tree("text"));
  const auto text = save("text", Tree("other"));
  const auto kind = save("kind", Tree(7));
  values[63] = 1;
  const auto element = save("element", Tree("text"));
  CopiedItem item;
  for (size_t i = 0; i < 2; ++i) {
    const LeafInfo& info = source->leaves()[i];
    item.leaves.push_back({i, info.key, info.kind, info.dtype, info.shape});
  }
  AppendPieces({1, DType::kInt32, {{0}, {100}}}, 40, item.units);
  item.hashes.resize(item.units.size());
  const std::string zeros(40, '\0');
  for (size_t i = 0; i < 5; ++i) item.hashes[i] = ElementsHash(zeros);
  const CheckOptions options{.bytes_max = 100};
  EXPECT_EQ(*CheckCopy(*source, *source, {item}, options), 400u);
  const auto why = [&](const Checkpoint& target) {
    const Status status = CheckCopy(*source, target, {item}, options).status();
    EXPECT_EQ(status.code(), StatusCode::kDataLoss);
    return std::string(status.message());
  };
  EXPECT_THAT(why(*element), AllOf(HasSubstr("leaf w"), HasSubstr("[60:70]")));
  EXPECT_THAT(why(*text), AllOf(HasSubstr("leaf a"), HasSubstr("sha256")));
  EXPECT_THAT(why(*kind), AllOf(HasSubstr("leaf a"), HasSubstr("kind")));
  item.leaves.erase(item.leaves.begin());
  EXPECT_THAT(why(*source), HasSubstr("got 2 leaves, want 1"));
}

}  // namespace
}  // namespace holdfast
