#include "holdfast/mapped_tensor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <string>

#include "engine/checkpoint/opened_checkpoint.h"
#include "engine/checkpoint/stored_extents.h"
#include "engine/save/array_test_util.h"
#include "twins/scratch_directory.h"

namespace holdfast {
namespace {

using testing::HasSubstr;

namespace fs = std::filesystem;

Extent At(Shape origin, Shape shape, uint64_t offset) {
  return {{std::move(origin), std::move(shape)}, "f", offset, {}, false};
}

// Returns an array of distinct values.
Array Numbered(Shape shape) {
  std::vector<float> values(static_cast<size_t>(ElementCount(shape)));
  std::iota(values.begin(), values.end(), 0.0F);
  return *Array::Of(values, std::move(shape));
}

std::string WhyNotRun(const Shape& shape, std::vector<Extent> extents,
                      DType dtype = DType::kFloat32) {
  return PlainRunOf(dtype, shape, extents).why_not;
}

TEST(PlainRun, OfOneExtentOrSeveralInAnyOrder) {
  const PlainRun whole =
      PlainRunOf(DType::kFloat32, {2, 3}, std::vector{At({0, 0}, {2, 3}, 8)});
  EXPECT_EQ(whole.why_not, "");
  EXPECT_EQ(whole.file, "f");
  EXPECT_EQ(whole.offset, 8);
  const PlainRun rows = PlainRunOf(
      DType::kFloat32, {5, 3},
      std::vector{At({4, 0}, {1, 3}, 64 + 48), At({0, 0}, {2, 3}, 64),
                  At({2, 0}, {2, 3}, 64 + 24)});
  EXPECT_EQ(rows.why_not, "");
  EXPECT_EQ(rows.offset, 64);
  // Parts of a row, with axes of one element around them.
  EXPECT_EQ(WhyNotRun({1, 2, 4}, {At({0, 0, 0}, {1, 1, 4}, 0),
                                  At({0, 1, 0}, {1, 1, 2}, 16),
                                  At({0, 1, 2}, {1, 1, 2}, 24)}),
            "");
  EXPECT_EQ(WhyNotRun({}, {At({}, {}, 4)}), "");
}

TEST(PlainRun, SaysWhyThereIsNone) {
  EXPECT_THAT(WhyNotRun({4}, {At({0}, {4}, 2)}),
              HasSubstr("offset 2, no mult"));
  EXPECT_THAT(WhyNotRun({4}, {At({0}, {2}, 0), At({2}, {2}, 12)}),
              HasSubstr("chunks that are not contiguous"));
  EXPECT_THAT(WhyNotRun({4}, {At({0}, {2}, 8), At({2}, {2}, 0)}),
              HasSubstr("chunks that are not contiguous"));
  EXPECT_THAT(
      WhyNotRun({2, 4}, {At({0, 0}, {2, 2}, 0), At({0, 2}, {2, 2}, 16)}),
      HasSubstr("cut its rows"));
  EXPECT_THAT(WhyNotRun({4}, {At({0}, {2}, 0)}), HasSubstr("in no file"));
  EXPECT_THAT(WhyNotRun({4}, {At({2}, {2}, 0)}), HasSubstr("in no file"));
  EXPECT_THAT(WhyNotRun({4}, {}), HasSubstr("in no file"));
  EXPECT_THAT(WhyNotRun({4}, {At({0}, {4}, 0)}, DType::kBool),
              HasSubstr("bools"));
  EXPECT_THAT(WhyNotRun({4}, {At({0}, {4}, 0)}, DType::kInt4),
              HasSubstr("narrower"));
  std::vector<Extent> two = {At({0}, {2}, 0), At({2}, {2}, 8)};
  two[1].file = "g";
  EXPECT_THAT(WhyNotRun({4}, two), HasSubstr("several files"));
  Extent swapped = At({0}, {4}, 0);
  swapped.is_big_endian = true;
  EXPECT_EQ(WhyNotRun({4}, {swapped}), "big endian");
  EXPECT_EQ(WhyNotRun({4}, {swapped}, DType::kUint8), "");
  Extent turned = At({0, 0}, {2, 4}, 0);
  turned.strides = {4, 8};
  EXPECT_THAT(WhyNotRun({2, 4}, {turned}), HasSubstr("another order"));
}

class MapTensorsTest : public testing::Test {
 protected:
  void Write(Compression compression, uint64_t chunk_bytes = 1 << 20) {
    SaveOptions options;
    options.compression = compression;
    options.chunk_bytes = chunk_bytes;
    options.overwrite = true;
    const auto saved = Save(
        path_,
        Tree::Dict({{"name", Tree("adam")}, {"w", Tree(Numbered({1000, 30}))}}),
        options);
    ASSERT_TRUE(saved.ok()) << saved.status().ToString();
  }

  Result<MappedTensor> MapLeaf(std::string_view name,
                               const MapOptions& options = {}) {
    auto opened = OpenCheckpoint(Place(path_));
    if (!opened.ok()) return opened.status();
    const size_t leaf = *(*opened)->Find(name);
    auto tensors = MapTensors(**opened, std::span(&leaf, 1), options);
    if (!tensors.ok()) return tensors.status();
    return std::move(tensors->front());
  }

  ScratchDirectory scratch_;
  const std::string path_ = scratch_.path() + "/ckpt";
};

TEST_F(MapTensorsTest, GivesTheBytesOfTheFile) {
  Write(Compression::kNone, /*chunk_bytes=*/12'000);
  const auto tensor = MapLeaf("w");
  ASSERT_TRUE(tensor.ok()) << tensor.status().ToString();
  EXPECT_EQ(tensor->why_not, "");
  EXPECT_TRUE(tensor->array.is_read_only());
  const Array want = Numbered({1000, 30});
  EXPECT_EQ(tensor->array.shape(), want.shape());
  EXPECT_EQ(std::memcmp(tensor->array.view().data, want.view().data,
                        want.byte_count()),
            0);
  EXPECT_THAT(tensor->file, HasSubstr(path_));
}

TEST_F(MapTensorsTest, SaysWhyNot) {
  Write(Compression::kZstd);
  EXPECT_EQ(MapLeaf("w")->why_not, "compressed with zstd");
  EXPECT_EQ(MapLeaf("w")->array.view().data, nullptr);
  EXPECT_EQ(MapLeaf("name")->why_not, "no array");
}

TEST_F(MapTensorsTest, OnlyVerifyLooksAtChecksums) {
  Write(Compression::kNone);
  const auto before = MapLeaf("w");
  {
    std::fstream file(before->file,
                      std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(before->offset + 70'001));
    file.put('\x55');
  }
  const auto unchecked = MapLeaf("w");
  ASSERT_TRUE(unchecked.ok());
  EXPECT_EQ(unchecked->array.view().data[70'001], '\x55');
  const auto checked = MapLeaf("w", {.copy_on_write = false, .verify = true});
  EXPECT_EQ(checked.status().code(), StatusCode::kDataLoss);
}

TEST_F(MapTensorsTest, VerifiesWhatIsWhole) {
  Write(Compression::kNone);
  const auto tensor = MapLeaf("w", {.copy_on_write = true, .verify = true});
  ASSERT_TRUE(tensor.ok()) << tensor.status().ToString();
  EXPECT_FALSE(tensor->array.is_read_only());
}

TEST_F(MapTensorsTest, AFileThatWasCutIsAnError) {
  Write(Compression::kNone);
  const auto before = MapLeaf("w");
  fs::resize_file(before->file, before->offset + 100);
  const auto cut = MapLeaf("w");
  EXPECT_EQ(cut.status().code(), StatusCode::kDataLoss);
}

TEST_F(MapTensorsTest, LinksThatLeadOutAreNotFollowed) {
  Write(Compression::kNone);
  const auto before = MapLeaf("w");
  const std::string elsewhere = scratch_.path() + "/elsewhere";
  fs::rename(before->file, elsewhere);
  fs::create_symlink(elsewhere, before->file);
  EXPECT_FALSE(MapLeaf("w").ok());
}

TEST_F(MapTensorsTest, RefusesNumbersThatAreNoLeafs) {
  Write(Compression::kNone);
  const auto opened = OpenCheckpoint(Place(path_));
  const size_t leaf = 3;
  EXPECT_EQ(MapTensors(**opened, std::span(&leaf, 1)).status().code(),
            StatusCode::kOutOfRange);
}

}  // namespace
}  // namespace holdfast
