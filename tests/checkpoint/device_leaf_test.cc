// Saves of arrays on a device (the twin's): every layout and dtype, every way
// of saving, and what remains after a device's failure.
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "checkpoint/test_trees.h"
#include "gmock/gmock.h"
#include "ground/device/device_reader.h"
#include "ground/device/pinned_ring.h"
#include "ground/tensor/copy.h"
#include "gtest/gtest.h"
#include "holdfast/delta.h"
#include "twins/device_twin.h"
#include "twins/file_bytes.h"
#include "twins/scratch_directory.h"

namespace holdfast {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// How an array's elements are arranged on the device.
enum class Arrangement { kRows, kColumns, kEverySecond, kRowsBackwards };
constexpr Arrangement kArrangements[] = {
    Arrangement::kRows, Arrangement::kColumns, Arrangement::kEverySecond,
    Arrangement::kRowsBackwards};

class DeviceLeaves : public ::testing::Test {
 protected:
  static constexpr uint64_t kRingBytes = 3 * 4096;

  void TearDown() override { EXPECT_THAT(twin_.violations(), IsEmpty()); }

  // Returns a leaf on the device with the elements of a matrix, arranged so.
  Tree OnDevice(const Array& matrix, Arrangement arrangement) {
    const int64_t element = static_cast<int64_t>(DTypeBytes(matrix.dtype()));
    const int64_t rows = matrix.shape()[0];
    const int64_t columns = matrix.shape()[1];
    DeviceArray array;
    array.dtype = matrix.dtype();
    array.shape = matrix.shape();
    int64_t first = 0;
    switch (arrangement) {
      case Arrangement::kRows:
        array.strides = {columns * element, element};
        break;
      case Arrangement::kColumns:
        array.strides = {element, rows * element};
        break;
      case Arrangement::kEverySecond:
        array.strides = {2 * columns * element, 2 * element};
        break;
      case Arrangement::kRowsBackwards:
        array.strides = {-columns * element, element};
        first = (rows - 1) * columns * element;
        break;
    }
    std::string memory(static_cast<size_t>(2 * rows * columns * element), 'g');
    CopyStrided(matrix.view(), {matrix.dtype(), memory.data() + first,
                                array.shape, array.strides});
    array.address = twin_.Allocate(0, memory) + static_cast<uint64_t>(first);
    const DType dtype = array.dtype;
    const Shape shape = array.shape;
    auto reader = DeviceReader::Make(ring_, std::move(array));
    EXPECT_TRUE(reader.ok()) << reader.status().ToString();
    return Tree::DeferredArray(dtype, shape, *std::move(reader));
  }

  // Adds one array in three shards to both trees; in `device`, two of them are
  // on the device.
  void AddShards(Tree& host, Tree& device) {
    const auto traits = std::make_shared<const ArrayTraits>();
    std::vector<ArrayShard> here;
    std::vector<ArrayShard> there;
    const int64_t starts[] = {0, 37, 90, 120};
    for (uint32_t i = 0; i < 3; ++i) {
      const Shape origin{starts[i], 0};
      const Array part =
          RandomArray(DType::kInt16, {starts[i + 1] - starts[i], 61}, 100 + i);
      here.push_back({origin, part});
      there.push_back({origin, part});
      if (i == 1) continue;
      const auto memory =
          std::make_shared<const Tree>(OnDevice(part, kArrangements[i]));
      there.back().array = Array::Outline(part.dtype(), part.shape());
      there.back().reader = {memory, memory->reader()};
    }
    host.Add("shards", Tree::ShardedArray({120, 61}, here, traits));
    device.Add("shards", Tree::ShardedArray({120, 61}, there, traits));
  }

  // Fills two trees with the same values, in host memory and on the device.
  void MakeTrees(Tree& host, Tree& device) {
    host = Tree::Dict();
    device = Tree::Dict();
    uint32_t seed = 1;
    const auto add = [&](const std::string& name, const Array& array,
                         Arrangement arrangement) {
      host.Add(name, Tree(array));
      device.Add(name, OnDevice(array, arrangement));
    };
    int next = 0;
    for (const DType dtype : StorableDTypes()) {
      add(std::string(DTypeName(dtype)), RandomArray(dtype, {13, 29}, seed++),
          kArrangements[next++ % 4]);
    }
    for (const Arrangement arrangement : kArrangements) {
      add("big" + std::to_string(static_cast<int>(arrangement)),
          RandomArray(DType::kFloat32, {160, 77}, seed++), arrangement);
    }
    AddShards(host, device);
    host.Add("step", Tree(7));
    device.Add("step", Tree(7));
  }

  static SaveOptions Reproducible(SaveOptions options) {
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

  DeviceTwin twin_;
  const std::shared_ptr<PinnedRing> ring_ = std::make_shared<PinnedRing>(
      twin_, 0,
      PinnedRingOptions{.slot_bytes = 4096,
                        .byte_count_max = kRingBytes,
                        .wait_seconds_max = 20});
  const ScratchDirectory scratch_;
};

TEST_F(DeviceLeaves, AreSavedAsTheSameFilesAsHostArrays) {
  Tree host;
  Tree device;
  MakeTrees(host, device);
  std::vector<SaveOptions> ways(9);
  ways[1].compression = Compression::kNone;
  ways[2].compression = Compression::kZstd;
  ways[3].zarr_format = 3;
  ways[4].use_ocdbt = false;
  ways[5].format = Format::kOrbaxV1;
  ways[6].also = AlsoSafetensors();
  ways[7].fingerprints = true;
  ways[8].run.memory_bytes = 20000;
  for (size_t way = 0; way < ways.size(); ++way) {
    SCOPED_TRACE(way);
    std::map<std::string, std::string> files[2];
    // The marker contains the path, so the path must be the same.
    const std::string path = scratch_ / "ckpt";
    for (int i = 0; i < 2; ++i) {
      const auto saved =
          Save(path, i == 0 ? host : device, Reproducible(ways[way]));
      ASSERT_TRUE(saved.ok()) << saved.status().ToString();
      EXPECT_TRUE(Verify(path)->damages.empty());
      files[i] = FilesBelow(path);
      fs::remove_all(path);
    }
    EXPECT_TRUE(files[0] == files[1]);
    EXPECT_FALSE(files[0].empty());
  }
  EXPECT_LE(twin_.pinned_bytes_peak(), kRingBytes);
}

TEST_F(DeviceLeaves, AreSavedAsDeltas) {
  Tree host;
  Tree device;
  MakeTrees(host, device);
  const std::string base = scratch_ / "1";
  const std::string step = scratch_ / "2";
  ASSERT_TRUE(Save(base, host, Reproducible({})).ok());
  const auto delta = SaveDelta(step, device, base);
  ASSERT_TRUE(delta.ok()) << delta.status().ToString();
  EXPECT_EQ(delta->changed_array_count, 0u);
  EXPECT_TRUE(Load(step)->tree == Load(base)->tree);
}

// Whichever call of the driver fails: the save fails, names the leaf or the
// device, and leaves the earlier checkpoint; or it succeeds and is right.
TEST_F(DeviceLeaves, AFailingDeviceCostsNoEarlierCheckpoint) {
  const std::string path = scratch_ / "ckpt";
  const Array before = RandomArray(DType::kFloat32, {40, 50}, 1);
  const Array after = RandomArray(DType::kFloat32, {40, 50}, 2);
  const Tree old_tree = Tree::Dict({{"w", Tree(before)}});
  const Tree new_tree = Tree::Dict({{"w", Tree(after)}});
  const Tree device =
      Tree::Dict({{"w", OnDevice(after, Arrangement::kColumns)}});
  SaveOptions options = Reproducible({});
  options.overwrite = true;
  options.run.threads = 2;
  int failed_count = 0;
  for (int call = 1; call < 40; ++call) {
    SCOPED_TRACE(call);
    ASSERT_TRUE(Save(path, old_tree, options).ok());
    twin_.FailCall(call, UnavailableError("injected"));
    const auto saved = Save(path, device, options);
    twin_.FailCall(0, Status());
    const auto loaded = Load(path);
    ASSERT_TRUE(loaded.ok()) << loaded.status().ToString();
    if (saved.ok()) {
      EXPECT_TRUE(loaded->tree == new_tree);
      continue;
    }
    ++failed_count;
    EXPECT_EQ(saved.status().code(), StatusCode::kUnavailable);
    EXPECT_THAT(std::string(saved.status().message()), HasSubstr("injected"));
    EXPECT_TRUE(loaded->tree == old_tree);
    EXPECT_TRUE(Verify(path)->damages.empty());
  }
  EXPECT_GT(failed_count, 3);
  ASSERT_TRUE(Save(path, device, options).ok());
  EXPECT_TRUE(Load(path)->tree == new_tree);
}

TEST_F(DeviceLeaves, WithoutADriverALeafSaysSo) {
  DeviceArray array;
  array.shape = {4};
  array.address = 4096;
  const auto leaf = DeviceLeaf(array);
  // Where there is a driver, the address is not one of its own.
  EXPECT_FALSE(leaf.ok());
  EXPECT_THAT(leaf.status().code(),
              ::testing::AnyOf(StatusCode::kFailedPrecondition,
                               StatusCode::kInvalidArgument));
}

}  // namespace
}  // namespace holdfast
