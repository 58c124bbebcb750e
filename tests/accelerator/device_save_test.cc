// Saves of arrays on devices by only the public API, through the engine's own
// CUDA driver, on a library whose devices are in host memory
// (tests/twins/cuda_twin.h).
#include <filesystem>
#include <map>
#include <memory>
#include <string>

#include "checkpoint/test_trees.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "holdfast/checkpoint.h"
#include "holdfast/device.h"
#include "twins/cuda_twin.h"
#include "twins/file_bytes.h"
#include "twins/scratch_directory.h"

namespace holdfast {
namespace {

using ::testing::HasSubstr;

class DeviceSave : public ::testing::Test {
 protected:
  // Both devices are there from the start: the engine asks for their count
  // once.
  void SetUp() override { twin_reset(2); }
  void TearDown() override {
    EXPECT_EQ(twin_violation_count(), 0) << twin_violation(0);
    EXPECT_EQ(twin_context_depth(), 0);
  }

  static SaveOptions Reproducible() {
    SaveOptions options;
    options.sync = false;
    options.chunk_bytes = 10000;
    options.now_ns = [] { return uint64_t{1'700'000'000'000'000'000}; };
    options.random_hex = [counter = uint64_t{0}]() mutable {
      char text[33];
      std::snprintf(text, sizeof text, "%032lx", ++counter);
      return std::string(text);
    };
    return options;
  }

  std::map<std::string, std::string> FilesOf(const Tree& tree) {
    const std::string path = scratch_ / "ckpt";
    const auto saved = Save(path, tree, Reproducible());
    EXPECT_TRUE(saved.ok()) << saved.status().ToString();
    auto files = FilesBelow(path);
    std::filesystem::remove_all(path);
    return files;
  }

  const ScratchDirectory scratch_;
};

TEST_F(DeviceSave, WritesTheSameFilesAsASaveFromTheHost) {
  Tree host = Tree::Dict();
  Tree devices = Tree::Dict();
  uint32_t seed = 1;
  for (const DType dtype : StorableDTypes()) {
    const Array matrix = RandomArray(dtype, {90, 70}, seed);
    const auto byte_count = static_cast<uint64_t>(90 * 70 * DTypeBytes(dtype));
    const int device = static_cast<int>(seed++ % 2);
    DeviceArray array;
    array.dtype = dtype;
    array.shape = matrix.shape();
    const std::string before(byte_count, 'b');
    array.address = twin_allocate(device, before.data(), byte_count);
    array.stream = twin_new_stream(device);
    // The program's work is far from done when the save begins.
    twin_queue_write(device, array.stream, array.address, matrix.view().data,
                     byte_count, 50);
    auto leaf = DeviceLeaf(std::move(array));
    ASSERT_TRUE(leaf.ok()) << leaf.status().ToString();
    const std::string name(DTypeName(dtype));
    host.Add(name, Tree(matrix));
    devices.Add(name, *std::move(leaf));
  }
  const auto from_devices = FilesOf(devices);
  EXPECT_FALSE(from_devices.empty());
  EXPECT_TRUE(from_devices == FilesOf(host));
  EXPECT_GT(twin_pinned_bytes_peak(), 0u);
}

TEST_F(DeviceSave, TheOwnerIsKeptUntilTheLeafIsGone) {
  const auto owner = std::make_shared<int>(0);
  DeviceArray array;
  array.shape = {4};
  array.address = twin_allocate(1, "abcd", 4);
  array.owner = owner;
  {
    const auto leaf = DeviceLeaf(std::move(array));
    ASSERT_TRUE(leaf.ok()) << leaf.status().ToString();
    EXPECT_EQ(owner.use_count(), 2);
    EXPECT_FALSE(FilesOf(Tree::Dict({{"w", *leaf}})).empty());
  }
  EXPECT_EQ(owner.use_count(), 1);
}

TEST_F(DeviceSave, AStreamThatIsCapturedIsRefusedAndItsCaptureGoesOn) {
  DeviceArray array;
  array.shape = {4};
  array.address = twin_allocate(0, "abcd", 4);
  array.stream = twin_new_stream(0);
  twin_begin_capture(array.stream, 0);
  const Status refused = DeviceLeaf(array).status();
  EXPECT_EQ(refused.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(refused.message()),
              HasSubstr("save after the capture"));
  EXPECT_TRUE(twin_end_capture());
  EXPECT_TRUE(DeviceLeaf(array).ok());
}

TEST_F(DeviceSave, MemoryOfTheHostIsRefused) {
  const int on_stack = 0;
  DeviceArray array;
  array.shape = {4};
  array.address = reinterpret_cast<uint64_t>(&on_stack);
  const Status refused = DeviceLeaf(array).status();
  EXPECT_EQ(refused.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(refused.message()),
              HasSubstr("is in host memory; pass it as an array of the host"));
}

}  // namespace
}  // namespace holdfast
