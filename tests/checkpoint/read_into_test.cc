// Compares ReadInto with its slow twin, ReadBox of each box followed by a cast;
// also tests Structure and LeafInfo.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "checkpoint/test_trees.h"
#include "ground/tensor/box.h"
#include "ground/tensor/copy.h"
#include "twins/scratch_directory.h"

namespace holdfast {
namespace {

using testing::HasSubstr;

Box RandomBox(const Shape& shape, std::mt19937& random) {
  Box box;
  for (const int64_t extent : shape) {
    const bool is_whole = random() % 4 == 0;
    const int64_t origin = is_whole ? 0 : random() % extent;
    box.origin.push_back(origin);
    box.shape.push_back(is_whole ? extent : random() % (extent - origin) + 1);
  }
  return box;
}

// Memory for a box, in C order or with gaps between the elements.
struct Target {
  std::vector<char> memory;
  ArrayView view;
};

Target MakeTarget(DType dtype, const Shape& shape, std::mt19937& random) {
  const bool has_gaps = random() % 3 == 0;
  Shape padded = shape;
  if (has_gaps && !padded.empty()) padded.back() += 3;
  Target target;
  target.view = {dtype, nullptr, shape,
                 ContiguousStrides(padded, DTypeBytes(dtype))};
  target.memory.resize(ElementCount(padded) * DTypeBytes(dtype) + 1);
  // Odd addresses must work as well.
  target.view.data = target.memory.data() + random() % 2;
  return target;
}

bool IsExpected(const ArrayView& got, const Array& stored) {
  Array expected = *Array::Allocate(got.dtype, got.shape);
  ConvertStrided(stored.view(), expected.mutable_view());
  Array copy = *Array::Allocate(got.dtype, got.shape);
  CopyStrided(got, copy.mutable_view());
  return Tree(copy) == Tree(expected);
}

struct ReadLayout {
  int zarr_format;
  bool use_ocdbt;
  Compression compression;
  uint64_t chunk_bytes;
};

class ReadIntoTest : public testing::TestWithParam<ReadLayout> {
 protected:
  std::unique_ptr<Checkpoint> SaveAndOpen(const Tree& tree) {
    SaveOptions options;
    options.zarr_format = GetParam().zarr_format;
    options.use_ocdbt = GetParam().use_ocdbt;
    options.compression = GetParam().compression;
    options.chunk_bytes = GetParam().chunk_bytes;
    options.sync = false;
    const auto saved = Save(path_, tree, options);
    EXPECT_TRUE(saved.ok()) << saved.status().ToString();
    OpenOptions open;
    open.stored_sizes = false;
    auto opened = Open(path_, open);
    EXPECT_TRUE(opened.ok()) << opened.status().ToString();
    return std::move(opened).value();
  }

  const ScratchDirectory scratch_;
  const std::string path_ = scratch_ / "checkpoint";
};

TEST_P(ReadIntoTest, GivesWhatReadBoxGives) {
  Tree tree = AllKindsTree();
  tree.Add("deep", Tree(RandomArray(DType::kInt16, {6, 5, 40, 3}, 77)));
  tree.Add("large", Tree(RandomArray(DType::kFloat32, {700, 520}, 78)));
  const auto checkpoint = SaveAndOpen(tree);
  std::vector<size_t> arrays;
  for (size_t i = 0; i < checkpoint->leaves().size(); ++i) {
    const ValueKind kind = checkpoint->leaves()[i].kind;
    if (kind == ValueKind::kArray || kind == ValueKind::kScalar) {
      arrays.push_back(i);
    }
  }
  const std::vector<DType> dtypes = StorableDTypes();
  std::mt19937 random(GetParam().zarr_format * 10 + GetParam().use_ocdbt);
  for (int round = 0; round < 12; ++round) {
    std::vector<Target> targets;
    std::vector<ReadRequest> requests;
    // Few leaves, so that requests share chunks.
    const size_t leaf_count = random() % arrays.size() + 1;
    for (int n = random() % 40 + 1; n > 0; --n) {
      ReadRequest request;
      request.leaf = arrays[(random() % leaf_count + round) % arrays.size()];
      const LeafInfo& leaf = checkpoint->leaves()[request.leaf];
      Box box = RandomBox(leaf.shape, random);
      DType dtype =
          random() % 2 ? *leaf.dtype : dtypes[random() % dtypes.size()];
      const bool is_refused = dtype == DType::kBool &&
                              DTypeKindOf(*leaf.dtype) == DTypeKind::kComplex;
      if (is_refused) dtype = *leaf.dtype;
      targets.push_back(MakeTarget(dtype, box.shape, random));
      request.origin = box.origin;
      request.target = targets.back().view;
      requests.push_back(std::move(request));
    }
    RunOptions run;
    run.threads = random() % 3 + 1;
    run.memory_bytes = round % 2 ? 1000 : 1 << 20;
    const auto stats = checkpoint->ReadInto(requests, run);
    ASSERT_TRUE(stats.ok()) << stats.status().ToString();
    for (const ReadRequest& request : requests) {
      const auto stored = checkpoint->ReadBox(request.leaf, request.origin,
                                              request.target.shape);
      ASSERT_TRUE(stored.ok());
      EXPECT_TRUE(IsExpected(request.target, *stored))
          << checkpoint->leaves()[request.leaf].name << " at "
          << BoxToString({request.origin, request.target.shape}) << " as "
          << DTypeName(request.target.dtype);
    }
  }
}

// Returns the number of bytes that this process has read from files so far.
uint64_t BytesRead() {
  std::ifstream io("/proc/self/io");
  std::string name;
  uint64_t value = 0;
  while (io >> name >> value) {
    if (name == "rchar:") return value;
  }
  return 0;
}

// Sixteen requests for one complete array read as many bytes as one request.
TEST_P(ReadIntoTest, SharedChunksAreReadOnce) {
  if (BytesRead() == 0) GTEST_SKIP() << "no /proc/self/io";
  const Array whole = RandomArray(DType::kFloat32, {512, 512}, 5);
  const auto checkpoint = SaveAndOpen(Tree::Dict({{"w", Tree(whole)}}));
  const auto cost = [&](const std::vector<ReadRequest>& requests) {
    const uint64_t before = BytesRead();
    EXPECT_TRUE(checkpoint->ReadInto(requests).ok());
    return BytesRead() - before;
  };
  std::vector<Array> arrays;
  std::vector<ReadRequest> columns, wholes;
  for (int64_t i = 0; i < 16; ++i) {
    arrays.push_back(*Array::Allocate(DType::kFloat32, {512, 32}));
    columns.push_back({0, {0, 32 * i}, arrays.back().mutable_view()});
    arrays.push_back(*Array::Allocate(DType::kFloat64, {512, 512}));
    wholes.push_back({0, {0, 0}, arrays.back().mutable_view()});
  }
  const uint64_t one_cost = cost({wholes[0]});
  EXPECT_GT(one_cost, 1u << 18);
  const uint64_t slack = one_cost / 10;
  EXPECT_LT(cost(wholes), one_cost + slack);
  EXPECT_LT(cost(columns), one_cost + slack);
  std::vector<ReadRequest> all = wholes;
  all.insert(all.end(), columns.begin(), columns.end());
  EXPECT_LT(cost(all), one_cost + slack);
  for (const ReadRequest& request : all) {
    const Box box{request.origin, request.target.shape};
    EXPECT_TRUE(IsExpected(request.target,
                           Array::Borrow(Subview(whole.view(), box), {})));
  }
}

TEST_P(ReadIntoTest, ChecksWhatIsAsked) {
  const auto checkpoint = SaveAndOpen(Tree::Dict(
      {{"t", Tree("text")}, {"w", RandomArray(DType::kInt8, {4, 4}, 1)}}));
  Array array = *Array::Allocate(DType::kInt8, {2, 2});
  const ArrayView view = array.mutable_view();
  const auto refusal = [&](ReadRequest request) {
    return checkpoint->ReadInto({request}).status().ToString();
  };
  EXPECT_EQ(refusal({1, {2, 2}, view}), "OK");
  EXPECT_THAT(refusal({1, {3, 2}, view}),
              HasSubstr("OUT_OF_RANGE: leaf w: slice [3:5, 2:4] is not inside "
                        "an array of shape (4, 4)"));
  EXPECT_THAT(refusal({1, {-1, 2}, view}), HasSubstr("OUT_OF_RANGE"));
  EXPECT_THAT(refusal({1, {2}, view}), HasSubstr("INVALID_ARGUMENT: leaf w"));
  EXPECT_THAT(refusal({0, {}, {DType::kInt8, view.data, {}, {}}}),
              HasSubstr("INVALID_ARGUMENT: leaf t is a string, not an array"));
  EXPECT_EQ(refusal({2, {2, 2}, view}), "OUT_OF_RANGE: leaf number 2 of 2");
  ArrayView bad = view;
  bad.strides.pop_back();
  EXPECT_THAT(refusal({1, {2, 2}, bad}), HasSubstr("1 strides, want 2"));
  // An empty box is inside every array, and needs no work.
  ArrayView empty = view;
  empty.shape = {0, 2};
  EXPECT_EQ(refusal({1, {4, 2}, empty}), "OK");
  EXPECT_EQ(checkpoint->ReadInto({}).status().ToString(), "OK");
}

TEST_P(ReadIntoTest, CancelledAndCounted) {
  const auto checkpoint = SaveAndOpen(
      Tree::Dict({{"w", RandomArray(DType::kInt32, {100, 100}, 1)}}));
  Array array = *Array::Allocate(DType::kInt64, {50, 100});
  const std::vector<ReadRequest> requests = {
      {0, {50, 0}, array.mutable_view()}};
  RunOptions run;
  uint64_t done_bytes = 0, total_bytes = 0;
  run.progress = [&](const Progress& progress) {
    done_bytes = progress.done_bytes;
    total_bytes = progress.total_bytes;
  };
  const auto stats = checkpoint->ReadInto(requests, run);
  ASSERT_TRUE(stats.ok());
  EXPECT_EQ(total_bytes, 20000u) << "as stored";
  EXPECT_EQ(done_bytes, total_bytes);
  EXPECT_EQ(stats->decoded_bytes, 20000u);
  std::atomic<bool> cancel{true};
  run.cancel = &cancel;
  EXPECT_EQ(checkpoint->ReadInto(requests, run).status().code(),
            StatusCode::kCancelled);
}

INSTANTIATE_TEST_SUITE_P(
    Layouts, ReadIntoTest,
    testing::Values(ReadLayout{2, true, Compression::kZstd, 0},
                    ReadLayout{2, true, Compression::kNone, 0},
                    ReadLayout{2, true, Compression::kNone, 4096},
                    ReadLayout{2, true, Compression::kFast, 4096},
                    ReadLayout{2, true, Compression::kPlanes, 4096},
                    ReadLayout{3, false, Compression::kPlanes, 0},
                    ReadLayout{3, true, Compression::kNone, 4096},
                    ReadLayout{3, false, Compression::kZstd, 0},
                    ReadLayout{2, false, Compression::kNone, 0}),
    [](const auto& info) {
      const ReadLayout& layout = info.param;
      return "Zarr" + std::to_string(layout.zarr_format) +
             (layout.use_ocdbt ? "Ocdbt" : "Directories") +
             std::to_string(static_cast<int>(layout.compression)) + "Chunk" +
             std::to_string(layout.chunk_bytes);
    });

// Only the wanted bytes of an uncompressed chunk are read.
TEST(ReadIntoParts, MoveOnlyTheirBytes) {
  if (BytesRead() == 0) GTEST_SKIP() << "no /proc/self/io";
  for (const bool use_ocdbt : {true, false}) {
    const ScratchDirectory scratch;
    const std::string path = scratch / "checkpoint";
    SaveOptions options;
    options.compression = Compression::kNone;
    options.chunk_bytes = 0;
    options.use_ocdbt = use_ocdbt;
    options.sync = false;
    const Array whole = RandomArray(DType::kFloat32, {1024, 1024}, 5);
    ASSERT_TRUE(Save(path, Tree::Dict({{"w", Tree(whole)}}), options).ok());
    const auto checkpoint = Open(path);
    ASSERT_TRUE(checkpoint.ok());
    Array same = *Array::Allocate(DType::kFloat32, {8, 1024});
    Array cast = *Array::Allocate(DType::kFloat64, {4, 1024});
    const std::vector<ReadRequest> requests = {
        {0, {500, 0}, same.mutable_view()}, {0, {506, 0}, cast.mutable_view()}};
    const uint64_t before = BytesRead();
    const auto stats = (*checkpoint)->ReadInto(requests);
    const uint64_t byte_count = BytesRead() - before;
    ASSERT_TRUE(stats.ok()) << stats.status().ToString();
    EXPECT_GE(byte_count, 10u * 4096);
    EXPECT_LT(byte_count, 20u * 4096);
    EXPECT_EQ(stats->stored_bytes, 10u * 4096);
    for (const ReadRequest& request : requests) {
      const Box box{request.origin, request.target.shape};
      EXPECT_TRUE(IsExpected(request.target,
                             Array::Borrow(Subview(whole.view(), box), {})));
    }
  }
}

// A small chunk is read and checked completely, even if only a part of it is
// requested.
TEST(ReadIntoParts, AreCheckedWhereThatIsCheap) {
  const ScratchDirectory scratch;
  const std::string path = scratch / "checkpoint";
  SaveOptions options;
  options.compression = Compression::kNone;
  options.use_ocdbt = false;
  options.sync = false;
  options.chunk_bytes = 0;
  ASSERT_TRUE(Save(path,
                   Tree::Dict({{"w", RandomArray(DType::kUint8, {9999}, 5)}}),
                   options)
                  .ok());
  std::fstream file(path + "/w/0",
                    std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(9000);
  file.put('\0').put('\1').put('\2');
  file.close();
  for (const bool verify : {true, false}) {
    OpenOptions open;
    open.verify = verify;
    const auto checkpoint = Open(path, open);
    ASSERT_TRUE(checkpoint.ok()) << checkpoint.status().ToString();
    Array part = *Array::Allocate(DType::kUint8, {10});
    const Status status =
        (*checkpoint)->ReadInto({{0, {0}, part.mutable_view()}}).status();
    EXPECT_EQ(status.code(), verify ? StatusCode::kDataLoss : StatusCode::kOk);
  }
}

// {'s': 3, 'w': np.array([5, 6], 'int32')} in an old checkpoint: the values are
// in the msgpack file itself.
TEST(ReadIntoLegacy, ValuesInTheMsgpackFile) {
  const ScratchDirectory scratch;
  const std::string text(
      "\x82\xa1s\x03\xa1w\xc7\x13\x01"  // ext 1, 19 bytes: an array
      "\x93\x91\x02\xa5int32\xc4\x08\x05\x00\x00\x00\x06\x00\x00\x00",
      28);
  std::filesystem::create_directory(scratch / "checkpoint");
  std::ofstream(scratch / "checkpoint/checkpoint", std::ios::binary) << text;
  const auto checkpoint = Open(scratch / "checkpoint");
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status().ToString();
  ASSERT_EQ((*checkpoint)->leaves().size(), 2u);
  EXPECT_TRUE((*checkpoint)->leaves()[1].skip_deserialize);
  EXPECT_FALSE((*checkpoint)->info().has_tree_metadata);
  Array scalar = *Array::Allocate(DType::kFloat32, {});
  Array part = *Array::Allocate(DType::kInt64, {1});
  const auto stats = (*checkpoint)
                         ->ReadInto({{1, {1}, part.mutable_view()},
                                     {0, {}, scalar.mutable_view()}});
  ASSERT_TRUE(stats.ok()) << stats.status().ToString();
  EXPECT_EQ(*reinterpret_cast<const int64_t*>(part.view().data), 6);
  EXPECT_EQ(*reinterpret_cast<const float*>(scalar.view().data), 3.0f);
  EXPECT_EQ(
      (*checkpoint)->ReadInto({{1, {2}, part.mutable_view()}}).status().code(),
      StatusCode::kOutOfRange);
}

TEST(Structure, IsTheTreeOfNumbers) {
  const ScratchDirectory scratch;
  const std::string path = scratch / "checkpoint";
  const Tree tree = Tree::Dict(
      {{"a", Tree::List({Tree(1), Tree::None(), Tree("x")})},
       {"b", Tree::Dict()},
       {"c",
        Tree::Tuple({Tree(RandomArray(DType::kInt8, {2}, 1)), Tree::List()})},
       {"d", Tree::Placeholder()}});
  SaveOptions options;
  options.sync = false;
  ASSERT_TRUE(Save(path, tree, options).ok());
  const auto opened = Open(path);
  ASSERT_TRUE(opened.ok());
  const auto structure = (*opened)->Structure();
  ASSERT_TRUE(structure.ok()) << structure.status().ToString();
  EXPECT_TRUE(*structure ==
              Tree::Dict({{"a", Tree::List({Tree(0), Tree::None(), Tree(2)})},
                          {"b", Tree::Dict()},
                          {"c", Tree::List({Tree(4), Tree::List()})},
                          {"d", Tree(6)}}));
  const std::vector<LeafInfo>& leaves = (*opened)->leaves();
  EXPECT_EQ(leaves[2].key, (std::vector<std::string>{"a", "2"}));
  EXPECT_EQ(leaves[2].key_kinds,
            (std::vector<KeyKind>{KeyKind::kName, KeyKind::kIndex}));
  EXPECT_TRUE(leaves[1].skip_deserialize);
  EXPECT_FALSE(leaves[2].skip_deserialize);
  EXPECT_THAT(leaves[4].array_metadata, HasSubstr("\"zarr_format\":2"));
  EXPECT_EQ(leaves[4].write_shape, std::nullopt) << "a numpy array";
  EXPECT_TRUE(leaves[4].problem.ok());
}

TEST(Structure, ItemsAreNamed) {
  const ScratchDirectory scratch;
  const std::string path = scratch / "checkpoint";
  const auto pending = PendingSave::Begin(path, {});
  ASSERT_TRUE(pending.ok());
  SaveOptions options;
  options.item_custom_metadata = R"({"i": 1})";
  ASSERT_TRUE((*pending)->SaveItem("x", Tree::List({Tree(1)}), options).ok());
  ASSERT_TRUE((*pending)->SaveItem("y", Tree(2), {}).ok());
  ASSERT_TRUE((*pending)->WriteFile("z/metadata", "{}").ok());
  ASSERT_TRUE((*pending)->Commit({}).ok());
  const auto opened = Open(path);
  ASSERT_TRUE(opened.ok());
  EXPECT_TRUE(
      *(*opened)->Structure() ==
      Tree::Dict(
          {{"x", Tree::List({Tree(0)})}, {"y", Tree(1)}, {"z", Tree(2)}}));
  EXPECT_EQ((*opened)->leaves()[0].key_kinds,
            (std::vector<KeyKind>{KeyKind::kName, KeyKind::kIndex}));
  EXPECT_FALSE((*opened)->info().has_tree_metadata);
  OpenOptions one;
  one.item = "x";
  const auto item = Open(path, one);
  ASSERT_TRUE(item.ok());
  EXPECT_TRUE((*item)->info().has_tree_metadata);
  EXPECT_TRUE((*item)->info().store_array_data_equal_to_fill_value);
  EXPECT_EQ((*item)->info().item_custom_metadata, R"({"i": 1})");
}

}  // namespace
}  // namespace holdfast
