// Tests of loads into the memory of devices (the twin's): checkpoints, boxes on
// devices, and comparisons with what the host reads.
#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "checkpoint/test_trees.h"
#include "engine/device/device_loader.h"
#include "gmock/gmock.h"
#include "ground/tensor/box.h"
#include "ground/tensor/copy.h"
#include "gtest/gtest.h"
#include "twins/device_twin.h"
#include "twins/scratch_directory.h"

namespace holdfast {

// How the elements of a target are arranged on its device.
enum class ElementOrder { kRows, kColumns, kEverySecond, kBackwards };
inline constexpr ElementOrder kElementOrders[] = {
    ElementOrder::kRows, ElementOrder::kColumns, ElementOrder::kEverySecond,
    ElementOrder::kBackwards};

// Memory of a device that a load writes to, and what it must be afterwards.
struct TargetBox {
  DeviceReadRequest request;
  DeviceAddress memory = 0;
  std::string want;
};

inline DeviceArray ArrangedAs(DType dtype, const Shape& shape,
                              ElementOrder layout) {
  DeviceArray array;
  array.dtype = dtype;
  array.shape = shape;
  array.strides = ContiguousStrides(shape, DTypeBytes(dtype));
  const size_t rank = shape.size();
  if (layout == ElementOrder::kColumns) {
    Shape reversed(shape.rbegin(), shape.rend());
    array.strides = ContiguousStrides(reversed, DTypeBytes(dtype));
    std::reverse(array.strides.begin(), array.strides.end());
  } else if (layout == ElementOrder::kEverySecond) {
    for (int64_t& stride : array.strides) stride *= 2;
  } else if (layout == ElementOrder::kBackwards && rank > 0) {
    array.strides[0] = -array.strides[0];
  }
  return array;
}

class DeviceLoads : public ::testing::Test {
 protected:
  static DeviceLoaderOptions SmallWindows() {
    return {.window_bytes = {1024, 4096},
            .lane_count_max = 3,
            .pinned_bytes_max = 3 * 4096,
            .wait_seconds_max = 20};
  }

  explicit DeviceLoads(const DeviceTwin::Options& options = {.device_count = 2})
      : twin_(options) {}

  void TearDown() override {
    EXPECT_THAT(twin_.violations(), ::testing::IsEmpty());
  }

  // Allocates memory on a device for a box of a leaf, filled with 'g'; its
  // elements have to become those that the host reads.
  TargetBox BoxOn(int device, const Checkpoint& checkpoint, size_t leaf,
                  const Box& box, DType dtype, ElementOrder layout) {
    TargetBox target;
    DeviceArray array = ArrangedAs(dtype, box.shape, layout);
    const auto byte_count = static_cast<size_t>(
        2 * ElementCount(box.shape) * static_cast<int64_t>(DTypeBytes(dtype)));
    const int64_t first =
        layout == ElementOrder::kBackwards && !box.shape.empty()
            ? -array.strides[0] * (box.shape[0] - 1)
            : 0;
    target.want.assign(byte_count, 'g');
    target.memory = twin_.Allocate(device, target.want);
    array.address = target.memory + static_cast<uint64_t>(first);
    const auto read = checkpoint.ReadBox(leaf, box.origin, box.shape);
    EXPECT_TRUE(read.ok()) << read.status().ToString();
    ConvertStrided(read->view(), {dtype, target.want.data() + first, box.shape,
                                  array.strides});
    target.request = {leaf, box.origin, std::move(array)};
    return target;
  }

  // Returns the boxes of all arrays, on devices and in layouts in turns.
  std::vector<TargetBox> AllBoxes(const Checkpoint& checkpoint) {
    std::vector<TargetBox> boxes;
    const auto& leaves = checkpoint.leaves();
    for (size_t leaf = 0; leaf < leaves.size(); ++leaf) {
      const LeafInfo& info = leaves[leaf];
      const bool is_array =
          info.dtype && info.problem.ok() &&
          (info.kind == ValueKind::kArray || info.kind == ValueKind::kScalar);
      if (!is_array || ElementCount(info.shape) == 0) continue;
      boxes.push_back(BoxOn(static_cast<int>(leaf % 2), checkpoint, leaf,
                            BoxOf(info.shape), *info.dtype,
                            kElementOrders[leaf / 2 % 4]));
    }
    return boxes;
  }

  static std::vector<DeviceReadRequest> RequestsOf(
      const std::vector<TargetBox>& boxes) {
    std::vector<DeviceReadRequest> requests;
    for (const TargetBox& box : boxes) requests.push_back(box.request);
    return requests;
  }

  Result<Stats> Load(const Checkpoint& checkpoint,
                     const std::vector<TargetBox>& boxes,
                     const RunOptions& run = {}) {
    return loader_->Read(checkpoint, RequestsOf(boxes), run);
  }

  // Lets each call of the driver fail in turn, with a new loader: the load
  // fails and names the leaf "w", or is right; the next load is right, and
  // nothing is kept. Returns how many loads failed, and how many did not.
  struct Outcomes {
    int failed_count = 0;
    int succeeded_count = 0;
  };
  Outcomes LoadWithEachCallFailing(
      const Checkpoint& checkpoint, const std::vector<TargetBox>& boxes,
      const DeviceLoaderOptions& options,
      const std::function<void(const Stats&)>& check) {
    const uint64_t device_bytes[] = {twin_.device_bytes(0),
                                     twin_.device_bytes(1)};
    Outcomes outcomes;
    for (int call = 1; call < 1000; ++call) {
      SCOPED_TRACE(call);
      loader_ = std::make_unique<DeviceLoader>(twin_, options);
      const int call_count = twin_.call_count();
      twin_.FailCall(call, UnavailableError("injected"));
      const auto loaded = Load(checkpoint, boxes);
      twin_.FailCall(0, Status());
      const bool has_failed = twin_.call_count() - call_count >= call;
      if (loaded.ok()) {
        ++outcomes.succeeded_count;
        EXPECT_TRUE(AreRight(boxes));
        check(*loaded);
      } else {
        ++outcomes.failed_count;
        EXPECT_EQ(loaded.status().code(), StatusCode::kUnavailable);
        EXPECT_THAT(std::string(loaded.status().message()),
                    ::testing::AllOf(::testing::HasSubstr("injected"),
                                     ::testing::HasSubstr("leaf w")));
      }
      const auto again = Load(checkpoint, boxes);
      EXPECT_TRUE(again.ok()) << again.status().ToString();
      EXPECT_TRUE(AreRight(boxes));
      if (again.ok()) check(*again);
      loader_.reset();
      EXPECT_EQ(twin_.device_bytes(0), device_bytes[0]);
      EXPECT_EQ(twin_.device_bytes(1), device_bytes[1]);
      EXPECT_EQ(twin_.handle_count(), 0u);
      if (!has_failed) break;
    }
    return outcomes;
  }

  bool AreRight(const std::vector<TargetBox>& boxes) {
    return std::ranges::all_of(boxes, [&](const TargetBox& box) {
      return twin_.Read(box.memory, box.want.size()) == box.want;
    });
  }

  void ExpectLoads(const Checkpoint& checkpoint, RunOptions run = {}) {
    const std::vector<TargetBox> boxes = AllBoxes(checkpoint);
    EXPECT_FALSE(boxes.empty());
    Progress last;
    run.progress = [&](const Progress& progress) { last = progress; };
    const auto loaded = Load(checkpoint, boxes, run);
    ASSERT_TRUE(loaded.ok()) << loaded.status().ToString();
    EXPECT_GT(last.total_bytes, 0u);
    EXPECT_EQ(last.done_bytes, last.total_bytes);
    for (const TargetBox& box : boxes) {
      EXPECT_TRUE(twin_.Read(box.memory, box.want.size()) == box.want)
          << checkpoint.leaves()[box.request.leaf].name;
    }
  }

  void ExpectLoads(const std::string& path) {
    SCOPED_TRACE(path);
    const auto opened = Open(path);
    ASSERT_TRUE(opened.ok()) << opened.status().ToString();
    ExpectLoads(**opened);
  }

  std::unique_ptr<Checkpoint> SaveAndOpen(const Tree& tree,
                                          SaveOptions options = {},
                                          const OpenOptions& open = {}) {
    options.sync = false;
    options.overwrite = true;
    const auto saved = Save(path_, tree, options);
    EXPECT_TRUE(saved.ok()) << saved.status().ToString();
    auto opened = Open(path_, open);
    EXPECT_TRUE(opened.ok()) << opened.status().ToString();
    return *std::move(opened);
  }

  // An array of 60 chunks of 400 bytes.
  std::unique_ptr<Checkpoint> SmallCheckpoint(
      Compression compression = Compression::kZstd) {
    SaveOptions options;
    options.chunk_bytes = 400;
    options.compression = compression;
    return SaveAndOpen(
        Tree::Dict({{"w", Tree(RandomArray(DType::kFloat32, {60, 100}, 1))}}),
        options);
  }

  DeviceTwin twin_;
  std::unique_ptr<DeviceLoader> loader_ =
      std::make_unique<DeviceLoader>(twin_, SmallWindows());
  const ScratchDirectory scratch_;
  const std::string path_ = scratch_ / "ckpt";
};

}  // namespace holdfast
