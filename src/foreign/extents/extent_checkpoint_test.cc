// Reads boxes from extents, and compares them with a slow reader that looks up
// each element's place in the extents.
#include "foreign/extents/extent_checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <numeric>
#include <random>

#include "engine/restore/extent_read.h"
#include "ground/tensor/copy.h"
#include "stores/storage/memory_store.h"

namespace holdfast {
namespace {

using testing::HasSubstr;

// An array divided into extents along its first axis. Each extent has its own
// file, order of axes and byte order.
struct MadeArray {
  ExtentLeaf leaf;
  Array whole;  // all elements
};

MadeArray MakeArrayIn(Store& store, DType dtype, const Shape& shape,
                      std::mt19937& random) {
  MadeArray made;
  made.leaf.info.name = "w";
  made.leaf.info.key = {"w"};
  made.leaf.info.dtype = dtype;
  made.leaf.info.shape = shape;
  const size_t element_bytes = DTypeBytes(dtype);
  std::string bytes(ElementCount(shape) * element_bytes, '\0');
  for (char& byte : bytes) byte = static_cast<char>(random() & 0x3f);
  made.whole = Array::FromBytes(dtype, shape, bytes.data());
  for (int64_t first = 0; first < shape[0];) {
    const int64_t rows = 1 + random() % (shape[0] - first);
    Extent extent;
    extent.box = BoxOf(shape);
    extent.box.origin[0] = first;
    extent.box.shape[0] = rows;
    extent.file = "f" + std::to_string(first);
    extent.offset = random() % 9;
    extent.is_big_endian = random() % 3 == 0;
    std::vector<size_t> axes(shape.size());
    std::iota(axes.begin(), axes.end(), 0);
    std::shuffle(axes.begin(), axes.end(), random);
    extent.strides.assign(shape.size(), 0);
    int64_t stride = element_bytes;
    for (const size_t axis : axes) {
      extent.strides[axis] = stride;
      stride *= extent.box.shape[axis];
      if (random() % 4 == 0) stride += 3 * element_bytes;
    }
    std::string file(extent.offset + stride, '\x77');
    const ArrayView target{dtype, &file[extent.offset], extent.box.shape,
                           extent.strides};
    const ConstArrayView part = Subview(made.whole.view(), extent.box);
    if (extent.is_big_endian && element_bytes > 1) {
      CopyByteSwapped(part, target);
    } else {
      CopyStrided(part, target);
    }
    EXPECT_TRUE(store.Write(extent.file, file).ok());
    made.leaf.extents.push_back(extent);
    first += rows;
  }
  return made;
}

std::unique_ptr<Checkpoint> CheckpointOf(std::shared_ptr<Store> store,
                                         ExtentLeaf leaf) {
  std::vector<ExtentLeaf> leaves;
  leaves.push_back(std::move(leaf));
  auto made = MakeExtentCheckpoint({}, std::move(store), std::move(leaves));
  EXPECT_TRUE(made.ok()) << made.status().ToString();
  return std::move(made).value();
}

TEST(ExtentCheckpoint, ReadsWhatItsTwinReads) {
  const DType dtypes[] = {DType::kUint8, DType::kInt16, DType::kFloat32,
                          DType::kComplex64};
  for (int seed = 0; seed < 60; ++seed) {
    std::mt19937 random(seed);
    auto store = std::make_shared<MemoryStore>();
    Shape shape(1 + random() % 3);
    for (int64_t& extent : shape) extent = 1 + random() % 9;
    MadeArray made = MakeArrayIn(*store, dtypes[random() % 4], shape, random);
    const auto checkpoint = CheckpointOf(store, std::move(made.leaf));
    ASSERT_TRUE(checkpoint->leaves()[0].problem.ok())
        << checkpoint->leaves()[0].problem.ToString();
    for (int round = 0; round < 10; ++round) {
      Box box = BoxOf(shape);
      for (size_t d = 0; d < shape.size(); ++d) {
        box.origin[d] = random() % shape[d];
        box.shape[d] = 1 + random() % (shape[d] - box.origin[d]);
      }
      const DType as = random() % 2 == 0 ? made.whole.dtype() : DType::kFloat64;
      Array got = Array::Allocate(as, box.shape).value();
      Array want = Array::Allocate(as, box.shape).value();
      ConvertStrided(Subview(made.whole.view(), box), want.mutable_view());
      RunOptions run;
      run.threads = 1 + random() % 3;
      run.memory_bytes = random() % 2 == 0 ? 64 : 1 << 20;
      const auto stats =
          checkpoint->ReadInto({{0, box.origin, got.mutable_view()}}, run);
      ASSERT_TRUE(stats.ok()) << stats.status().ToString();
      EXPECT_EQ(std::string_view(got.view().data, got.byte_count()),
                std::string_view(want.view().data, want.byte_count()))
          << "seed " << seed << " box " << BoxToString(box);
    }
  }
}

ExtentLeaf LeafAt(uint64_t offset, Shape shape, Shape strides) {
  ExtentLeaf leaf;
  leaf.info.name = "w";
  leaf.info.dtype = DType::kFloat32;
  leaf.info.shape = shape;
  leaf.extents.push_back({BoxOf(shape), "f", offset, std::move(strides)});
  return leaf;
}

TEST(ExtentCheckpoint, KeepsWhatDoesNotLieInItsFileApart) {
  auto store = std::make_shared<MemoryStore>();
  ASSERT_TRUE(store->Write("f", std::string(64, 'x')).ok());
  const auto problem = [&](ExtentLeaf leaf) {
    return CheckpointOf(store, std::move(leaf))->leaves()[0].problem;
  };
  EXPECT_TRUE(problem(LeafAt(0, {4, 4}, {})).ok());
  EXPECT_TRUE(problem(LeafAt(60, {1}, {})).ok());
  EXPECT_THAT(problem(LeafAt(1, {4, 4}, {})).ToString(),
              HasSubstr("leaf w: memory:/f at offset 1"));
  EXPECT_FALSE(problem(LeafAt(~uint64_t{0}, {1}, {})).ok());
  EXPECT_FALSE(problem(LeafAt(0, {4, 4}, {1 << 20, 4})).ok());
  EXPECT_FALSE(problem(LeafAt(0, {1 << 30, 1 << 30, 1 << 30}, {})).ok());
  EXPECT_FALSE(problem(LeafAt(0, {2}, {int64_t{1} << 62})).ok());
  // Strides of zero claim more elements than the file has.
  EXPECT_FALSE(problem(LeafAt(0, {1 << 30}, {0})).ok());
  ExtentLeaf twice = LeafAt(0, {4}, {});
  twice.extents.push_back(twice.extents[0]);
  EXPECT_THAT(problem(std::move(twice)).ToString(), HasSubstr("leaf w"));
  ExtentLeaf missing = LeafAt(0, {4}, {});
  missing.extents[0].file = "gone";
  EXPECT_EQ(problem(std::move(missing)).code(), StatusCode::kNotFound);
}

TEST(ExtentCheckpoint, RefusesElementsThatAreInNoFile) {
  auto store = std::make_shared<MemoryStore>();
  ASSERT_TRUE(store->Write("f", std::string(64, 'x')).ok());
  ExtentLeaf leaf = LeafAt(0, {4}, {});
  leaf.info.shape = {6};
  const auto checkpoint = CheckpointOf(store, std::move(leaf));
  EXPECT_TRUE(checkpoint->ReadBox(0, {0}, {4}).ok());
  EXPECT_THAT(checkpoint->Read(0).status().ToString(),
              HasSubstr("leaf w: 2 elements of [0:6] are in no file"));
}

TEST(ExtentCheckpoint, StopsWhenItIsTold) {
  auto store = std::make_shared<MemoryStore>();
  ASSERT_TRUE(store->Write("f", std::string(64, 'x')).ok());
  const auto checkpoint = CheckpointOf(store, LeafAt(0, {4, 4}, {}));
  const std::atomic<bool> cancel = true;
  RunOptions run;
  run.cancel = &cancel;
  Array got = Array::Allocate(DType::kFloat32, {4, 4}).value();
  EXPECT_EQ(checkpoint->ReadInto({{0, {0, 0}, got.mutable_view()}}, run)
                .status()
                .code(),
            StatusCode::kCancelled);
}

}  // namespace
}  // namespace holdfast
