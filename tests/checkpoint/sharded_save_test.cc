// Arrays in shards, and arrays that are cast while saving. In every layout the
// stored elements are those of the complete array, in the files that Orbax
// would write.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>

#include "checkpoint/test_trees.h"
#include "ground/tensor/box.h"
#include "ground/tensor/copy.h"
#include "twins/scratch_directory.h"

namespace holdfast {
namespace {

using testing::HasSubstr;
using testing::Not;

std::string FileText(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string((std::istreambuf_iterator<char>(file)), {});
}

Array CopyOf(const ConstArrayView& view) {
  Array copy = *Array::Allocate(view.dtype, view.shape);
  CopyStrided(view, copy.mutable_view());
  return copy;
}

// Cuts `box` at random places into at most 2^depth boxes.
void Cut(const Box& box, int depth, std::mt19937& random,
         std::vector<Box>& parts) {
  std::vector<size_t> axes;
  for (size_t d = 0; d < box.shape.size(); ++d) {
    if (box.shape[d] > 1) axes.push_back(d);
  }
  if (depth == 0 || axes.empty()) return parts.push_back(box);
  const size_t axis = axes[random() % axes.size()];
  const int64_t at = random() % (box.shape[axis] - 1) + 1;
  Box low = box, high = box;
  low.shape[axis] = at;
  high.origin[axis] += at;
  high.shape[axis] -= at;
  Cut(low, depth - 1, random, parts);
  Cut(high, depth - 1, random, parts);
}

// Returns the array as random shards, each in separate memory.
Tree InShards(const Array& whole, std::shared_ptr<const ArrayTraits> traits,
              uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<Box> boxes;
  Cut(BoxOf(whole.shape()), 4, random, boxes);
  std::shuffle(boxes.begin(), boxes.end(), random);
  std::vector<ArrayShard> shards;
  for (const Box& box : boxes) {
    shards.push_back({box.origin, CopyOf(Subview(whole.view(), box))});
  }
  return Tree::ShardedArray(whole.shape(), std::move(shards),
                            std::move(traits));
}

std::shared_ptr<const ArrayTraits> Traits(std::string sharding_json,
                                          std::string prng_impl,
                                          Shape write_shape) {
  return std::make_shared<const ArrayTraits>(ArrayTraits{
      std::move(sharding_json), std::move(prng_impl), std::move(write_shape)});
}

struct ShardedLayout {
  int zarr_format;
  bool use_ocdbt;
  Compression compression;
  uint64_t chunk_bytes;
};

class ShardedSave : public testing::TestWithParam<ShardedLayout> {
 protected:
  SaveOptions Options() const {
    SaveOptions options;
    options.zarr_format = GetParam().zarr_format;
    options.use_ocdbt = GetParam().use_ocdbt;
    options.compression = GetParam().compression;
    options.chunk_bytes = GetParam().chunk_bytes;
    options.sync = false;
    return options;
  }

  Tree SaveAndLoad(const Tree& tree, const SaveOptions& options) {
    const auto saved = Save(path_, tree, options);
    EXPECT_TRUE(saved.ok()) << saved.status().ToString();
    const auto report = Verify(path_);
    EXPECT_TRUE(report.ok() && report->damages.empty());
    auto loaded = Load(path_);
    EXPECT_TRUE(loaded.ok()) << loaded.status().ToString();
    return loaded.ok() ? std::move(loaded->tree) : Tree();
  }

  const ScratchDirectory scratch_;
  const std::string path_ = scratch_ / "checkpoint";
};

TEST_P(ShardedSave, ShardsComeBackAsOneArray) {
  for (uint32_t seed = 0; seed < 4; ++seed) {
    Tree sharded = Tree::Dict();
    for (const DType dtype :
         {DType::kFloat32, DType::kInt4, DType::kBool, DType::kComplex128}) {
      for (const Shape& write_shape :
           {Shape{}, Shape{4, 12, 5}, Shape{3, 5, 1}}) {
        const Array whole = RandomArray(dtype, {12, 24, 5}, seed);
        sharded.Add(std::string(DTypeName(dtype)) + ShapeToString(write_shape),
                    InShards(whole, Traits("{}", "", write_shape), seed));
      }
    }
    sharded.Add("zero_d", InShards(RandomArray(DType::kInt32, {}, seed),
                                   Traits("{}", "", {}), seed));
    SaveOptions options = Options();
    options.overwrite = true;
    // Keys are restored in sorted order, and equality of trees depends on the
    // order.
    Tree sorted = Tree::Dict();
    std::vector<std::string> keys = sharded.keys();
    std::sort(keys.begin(), keys.end());
    for (const std::string& key : keys) sorted.Add(key, *sharded.Find(key));
    EXPECT_TRUE(SaveAndLoad(sharded, options) == sorted) << seed;
  }
}

TEST_P(ShardedSave, TraitsComeBack) {
  const auto key_traits = Traits(R"({"a": 1})", "threefry2x32", Shape{1, 2});
  const Tree tree = Tree::Dict({
      {"key",
       Tree::JaxArray(RandomArray(DType::kUint32, {4, 2}, 1), key_traits)},
      {"plain", Tree::JaxArray(RandomArray(DType::kUint32, {4}, 2))},
      {"unnamed",
       Tree::JaxArray(RandomArray(DType::kUint32, {4}, 3), Traits("", "", {}))},
  });
  const Tree loaded = SaveAndLoad(tree, Options());
  EXPECT_TRUE(loaded == tree);
  EXPECT_EQ(loaded.Find("key")->array_traits(), *key_traits);
  EXPECT_THAT(FileText(path_ + "/_METADATA"),
              HasSubstr("\"write_shape\": [1, 2]"));
  const std::string records = FileText(path_ + "/array_metadatas/process_0");
  EXPECT_THAT(records, HasSubstr("\"ext_metadata\": {\"random_key_impl\": "
                                 "\"threefry2x32\"}"));
  EXPECT_THAT(records, HasSubstr("\"param_name\": \"key\", \"write_shape\": "
                                 "[1, 2], \"chunk_shape\": [1, 2]"));
  const auto opened = Open(path_);
  ASSERT_TRUE(opened.ok());
  const LeafInfo& key = (*opened)->leaves()[0];
  EXPECT_EQ(key.prng_impl, "threefry2x32");
  EXPECT_EQ(key.write_shape, (Shape{1, 2}));
  EXPECT_EQ(key.sharding_json, R"({"a": 1})");
  EXPECT_EQ((*opened)->leaves()[2].sharding_json, "");
}

TEST_P(ShardedSave, NoShardingFileWithoutEntries) {
  const Tree tree =
      Tree::Dict({{"w", Tree::JaxArray(RandomArray(DType::kUint32, {4}, 3),
                                       Traits("", "", {}))}});
  EXPECT_TRUE(SaveAndLoad(tree, Options()) == tree);
  EXPECT_EQ(FileText(path_ + "/_sharding"), "");
}

// Casts element by element.
Array SlowCast(const Array& source, DType dtype) {
  Array target = *Array::Allocate(dtype, source.shape());
  const size_t from_bytes = DTypeBytes(source.dtype());
  const size_t to_bytes = DTypeBytes(dtype);
  char* to = target.mutable_view().data;
  for (int64_t i = 0; i < source.element_count(); ++i) {
    ConvertStrided(
        {source.dtype(), source.view().data + i * from_bytes, {}, {}},
        {dtype, to + i * to_bytes, {}, {}});
  }
  return target;
}

TEST_P(ShardedSave, CastsEachLeafAsAsked) {
  const std::vector<DType> dtypes = StorableDTypes();
  std::mt19937 random(11);
  Tree tree = Tree::Dict(), expected = Tree::Dict();
  SaveOptions options = Options();
  for (int i = 0; i < 60; ++i) {
    const DType from = dtypes[random() % dtypes.size()];
    const DType to = dtypes[random() % dtypes.size()];
    const Array whole = RandomArray(from, {9, 31}, i);
    const std::string name = "leaf" + std::to_string(100 + i);
    const bool is_sharded = i % 2 == 0;
    tree.Add(name, is_sharded ? InShards(whole, {}, i) : Tree(whole));
    const Array cast = SlowCast(whole, to);
    expected.Add(name, is_sharded ? Tree::JaxArray(cast) : Tree(cast));
    options.save_args[name].dtype = to;
    if (i % 3 == 0) options.save_args[name].chunk_byte_size = 64;
  }
  tree.Add("scalar", Tree(2.75));
  options.save_args["scalar"].dtype = DType::kInt8;
  const auto saved = Save(path_, tree, options);
  ASSERT_TRUE(saved.ok()) << saved.status().ToString();
  const auto loaded = Load(path_);
  ASSERT_TRUE(loaded.ok()) << loaded.status().ToString();
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_TRUE(loaded->tree.children()[i] == expected.children()[i])
        << expected.keys()[i];
  }
  const Scalar& scalar = loaded->tree.Find("scalar")->scalar();
  EXPECT_EQ(scalar.dtype, DType::kInt8);
  EXPECT_EQ(scalar.As<int8_t>(), 2);
}

INSTANTIATE_TEST_SUITE_P(
    Layouts, ShardedSave,
    testing::Values(ShardedLayout{2, true, Compression::kZstd, 0},
                    ShardedLayout{2, true, Compression::kNone, 0},
                    ShardedLayout{2, true, Compression::kNone, 512},
                    ShardedLayout{3, true, Compression::kZstd, 512},
                    ShardedLayout{2, false, Compression::kFast, 512},
                    ShardedLayout{3, false, Compression::kNone, 0}),
    [](const auto& info) {
      const ShardedLayout& layout = info.param;
      return "Zarr" + std::to_string(layout.zarr_format) +
             (layout.use_ocdbt ? "Ocdbt" : "Directories") +
             std::to_string(static_cast<int>(layout.compression)) + "Chunk" +
             std::to_string(layout.chunk_bytes);
    });

TEST(SaveBudget, CastChunksStayWithinIt) {
  const ScratchDirectory scratch;
  SaveOptions options;
  options.compression = Compression::kNone;
  options.chunk_bytes = 256 << 10;
  options.run.memory_bytes = 1 << 20;
  options.run.threads = 1;
  options.save_args["w"].dtype = DType::kFloat32;
  const Tree tree =
      Tree::Dict({{"w", RandomArray(DType::kFloat64, {1 << 20}, 1)}});
  const auto saved = Save(scratch / "checkpoint", tree, options);
  ASSERT_TRUE(saved.ok()) << saved.status().ToString();
  EXPECT_LE(saved->stats.memory_bytes_peak, uint64_t{1} << 20);
  EXPECT_GE(saved->stats.memory_bytes_peak, uint64_t{512} << 10)
      << "a chunk and its cast";
  EXPECT_EQ(saved->stats.decoded_bytes, uint64_t{4} << 20);
}

}  // namespace
}  // namespace holdfast
