// Loads into the memory of devices (the twin's): every format, dtype and layout
// of the target; boxes, replicas; what remains after failures; bounds of
// memory.
#include <algorithm>
#include <atomic>
#include <fstream>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/device_loads.h"
#include "checkpoint/forged_fingerprint.h"
#include "checkpoint/test_trees.h"
#include "gmock/gmock.h"
#include "ground/tensor/box.h"
#include "ground/tensor/copy.h"
#include "gtest/gtest.h"
#include "holdfast/delta.h"
#include "holdfast/tools/convert.h"
#include "holdfast/tools/torch_file.h"
#include "holdfast/tools/view.h"
#include "tools/recipe/recipe_checkpoint.h"
#include "twins/device_twin.h"
#include "twins/host_kernels.h"
#include "twins/scratch_directory.h"

namespace holdfast {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST_F(DeviceLoads, EqualHostLoadsInEveryWayOfSaving) {
  std::vector<SaveOptions> ways(8);
  ways[1].compression = Compression::kNone;
  ways[2].compression = Compression::kZstd;
  ways[3].zarr_format = 3;
  ways[4].use_ocdbt = false;
  ways[5].format = Format::kOrbaxV1;
  ways[6].compression = Compression::kFast;
  ways[7].use_ocdbt = false;
  ways[7].compression = Compression::kNone;
  for (size_t way = 0; way < ways.size(); ++way) {
    SCOPED_TRACE(way);
    // The chunks are smaller than a window, or larger.
    for (const uint64_t chunk_bytes : {1000, 6000}) {
      ways[way].chunk_bytes = chunk_bytes;
      ExpectLoads(*SaveAndOpen(AllKindsTree(), ways[way]));
    }
  }
  EXPECT_LE(twin_.pinned_bytes_peak(), 3u * 4096);
}

TEST_F(DeviceLoads, WindowsOfAllSizesShareOneBound) {
  DeviceLoaderOptions options = SmallWindows();
  options.pinned_bytes_max = 4096;
  loader_ = std::make_unique<DeviceLoader>(twin_, options);
  const auto checkpoint = SmallCheckpoint();
  RunOptions run;
  run.threads = 1;
  for (const int64_t row_count : {2, 60}) {  // a small window, and a large one
    const std::vector<TargetBox> boxes = {
        BoxOn(0, *checkpoint, 0, {{0, 0}, {row_count, 100}}, DType::kFloat32,
              ElementOrder::kRows)};
    ASSERT_TRUE(Load(*checkpoint, boxes, run).ok());
    EXPECT_TRUE(AreRight(boxes));
    EXPECT_EQ(twin_.pinned_bytes(), row_count == 2 ? 1024u : 4096u);
  }
}

TEST_F(DeviceLoads, EqualHostLoadsOfOtherFormats) {
  SaveAndOpen(AllKindsTree());
  int number = 0;
  for (const Format format : {Format::kMegatronZarr, Format::kSafetensors,
                              Format::kDcp, Format::kTorchDist, Format::kNpz}) {
    const std::string target = scratch_ / std::to_string(number++) +
                               (format == Format::kNpz ? ".npz" : "");
    ConvertOptions options;
    options.format = format;
    const auto converted = Convert(path_, target, options);
    ASSERT_TRUE(converted.ok()) << converted.status().ToString();
    ExpectLoads(target);
  }
  for (const char* name : {"deflated.npz", "stored.npz", "torch.safetensors",
                           "numpy.safetensors"}) {
    ExpectLoads(HOLDFAST_SOURCE_DIR "/tests/golden/foreign/" +
                std::string(name));
  }
  const auto bytes = WriteTorchFile(PickleValue::Dict(
      {{PickleValue::String("w"),
        PickleValue::Tensor(RandomArray(DType::kFloat32, {70, 50}, 3))}}));
  ASSERT_TRUE(bytes.ok()) << bytes.status().ToString();
  std::ofstream(scratch_ / "w.pt", std::ios::binary) << *bytes;
  ExpectLoads(scratch_ / "w.pt");
}

TEST_F(DeviceLoads, EqualHostLoadsOfDeltasViewsAndRecipes) {
  SaveOptions raw;
  raw.compression = Compression::kNone;
  SaveAndOpen(AllKindsTree(), raw);
  ViewOptions options;
  options.sync = false;
  const auto view = View(path_, scratch_ / "view", options);
  ASSERT_TRUE(view.ok()) << view.status().ToString();
  ExpectLoads(scratch_ / "view");

  const auto recipe = Recipe::Parse(R"({"recipe": 1, "rest": "keep", "rules": [
      {"from": "zero_d", "to": "c", "cast": "float32"},
      {"from": "big", "to": "t", "axes": "a b -> b a"}]})");
  ASSERT_TRUE(recipe.ok()) << recipe.status().ToString();
  const auto seen = WithRecipe(*Open(path_), *recipe, {});
  ASSERT_TRUE(seen.ok()) << seen.status().ToString();
  ExpectLoads(**seen);

  const auto tree_with = [](uint32_t seed) {
    return Tree::Dict({{"big", Tree(RandomArray(DType::kFloat32, {64, 33}, 1))},
                       {"new", Tree(RandomArray(DType::kInt8, {900}, seed))},
                       {"step", Tree(static_cast<int64_t>(seed))}});
  };
  SaveOptions quick;
  quick.sync = false;
  ASSERT_TRUE(Save(scratch_ / "base", tree_with(1), quick).ok());
  const auto delta =
      SaveDelta(scratch_ / "delta", tree_with(2), scratch_ / "base", quick);
  ASSERT_TRUE(delta.ok()) << delta.status().ToString();
  ExpectLoads(scratch_ / "delta");
}

TEST_F(DeviceLoads, ReadAnyBoxesWithCastsOnBothDevices) {
  SaveOptions options;
  for (int round = 0; round < 12; ++round) {
    SCOPED_TRACE(round);
    options.chunk_bytes = round % 2 == 0 ? 500 : 20000;
    options.compression =
        round % 3 == 0 ? Compression::kNone : Compression::kZstd;
    std::mt19937 random(round);
    const auto checkpoint = SaveAndOpen(
        Tree::Dict({{"a", Tree(RandomArray(DType::kInt16, {40, 30, 3}, round))},
                    {"b", Tree(RandomArray(DType::kBfloat16, {500}, round))}}),
        options);
    std::vector<TargetBox> boxes;
    for (int i = 0; i < 12; ++i) {
      const size_t leaf = random() % 2;
      Box box;
      for (const int64_t extent : checkpoint->leaves()[leaf].shape) {
        box.origin.push_back(random() % extent);
        box.shape.push_back(random() % (extent - box.origin.back()) + 1);
      }
      const DType dtypes[] = {*checkpoint->leaves()[leaf].dtype,
                              DType::kFloat32, DType::kInt8};
      boxes.push_back(BoxOn(random() % 2, *checkpoint, leaf, box,
                            dtypes[random() % 3],
                            kElementOrders[random() % 4]));
    }
    const auto loaded = Load(*checkpoint, boxes);
    ASSERT_TRUE(loaded.ok()) << loaded.status().ToString();
    EXPECT_TRUE(AreRight(boxes));
  }
}

TEST_F(DeviceLoads, ReplicasAreReadOnceAndCopiedBetweenDevices) {
  for (const Compression compression :
       {Compression::kZstd, Compression::kNone}) {
    const auto checkpoint = SmallCheckpoint(compression);
    std::vector<TargetBox> boxes;
    for (const ElementOrder layout : kElementOrders) {
      boxes.push_back(BoxOn(static_cast<int>(layout) % 2, *checkpoint, 0,
                            BoxOf({60, 100}), DType::kFloat32, layout));
    }
    const auto loaded = Load(*checkpoint, boxes);
    ASSERT_TRUE(loaded.ok()) << loaded.status().ToString();
    EXPECT_TRUE(AreRight(boxes));
    EXPECT_EQ(loaded->decoded_bytes, 24000u);
    EXPECT_EQ(loaded->chunk_count, 60u);
  }
}

// Columns on each device, of chunks of full rows.
TEST_F(DeviceLoads, DecodeEachChunkOnceForAllDevices) {
  const auto checkpoint = SmallCheckpoint();
  std::vector<TargetBox> boxes;
  for (int i = 0; i < 4; ++i) {
    boxes.push_back(BoxOn(i % 2, *checkpoint, 0, {{0, 25 * i}, {60, 25}},
                          DType::kFloat32, ElementOrder::kRows));
  }
  const auto loaded = Load(*checkpoint, boxes);
  ASSERT_TRUE(loaded.ok()) << loaded.status().ToString();
  EXPECT_TRUE(AreRight(boxes));
  EXPECT_EQ(loaded->chunk_count, 60u);
}

TEST_F(DeviceLoads, WriteOnlyAfterTheProgramsWork) {
  const auto checkpoint = SmallCheckpoint();
  std::vector<TargetBox> boxes = {BoxOn(1, *checkpoint, 0, BoxOf({60, 100}),
                                        DType::kFloat32, ElementOrder::kRows)};
  const DeviceStream stream = *twin_.CreateStream(1);
  boxes[0].request.target.stream = stream;
  int polls_left = 20;
  twin_.Queue(1, stream, [&] {  // the memory's last use
    if (--polls_left > 0) return false;
    twin_.Write(boxes[0].memory, std::string(24000, 'p'));
    return true;
  });
  ASSERT_TRUE(Load(*checkpoint, boxes).ok());
  EXPECT_LE(polls_left, 0);
  EXPECT_TRUE(AreRight(boxes));
  twin_.DestroyStream(1, stream);
}

TEST_F(DeviceLoads, TheProgramsWorkThatNeverEndsIsADeadlineOrCancelled) {
  DeviceLoaderOptions options = SmallWindows();
  options.wait_seconds_max = 1;
  loader_ = std::make_unique<DeviceLoader>(twin_, options);
  const auto checkpoint = SmallCheckpoint();
  std::vector<TargetBox> boxes = {BoxOn(1, *checkpoint, 0, BoxOf({60, 100}),
                                        DType::kFloat32, ElementOrder::kRows)};
  const DeviceStream stream = *twin_.CreateStream(1);
  boxes[0].request.target.stream = stream;
  std::atomic<bool> is_cancelled{false};
  bool cancels = false;
  twin_.Queue(1, stream, [&] {
    if (cancels) is_cancelled = true;
    return false;
  });
  const auto late = Load(*checkpoint, boxes);
  EXPECT_EQ(late.status().code(), StatusCode::kDeadlineExceeded);
  EXPECT_THAT(std::string(late.status().message()),
              HasSubstr("leaf w: device 1: twin: device 1 has not finished a "
                        "copy in 1 s"));
  cancels = true;
  RunOptions run;
  run.cancel = &is_cancelled;
  EXPECT_EQ(Load(*checkpoint, boxes, run).status().code(),
            StatusCode::kCancelled);
  // Nothing was written.
  EXPECT_EQ(twin_.Read(boxes[0].memory, 24000), std::string(24000, 'g'));
  twin_.DestroyStream(1, stream);
}

TEST_F(DeviceLoads, CancelAndProgressAreThoseOfOneCall) {
  const auto checkpoint = SmallCheckpoint();
  const std::vector<TargetBox> boxes = {BoxOn(0, *checkpoint, 0,
                                              BoxOf({60, 100}), DType::kFloat32,
                                              ElementOrder::kRows)};
  std::vector<uint64_t> done;
  std::atomic<bool> is_cancelled{false};
  uint64_t cancel_at = ~uint64_t{0};
  RunOptions run;
  run.cancel = &is_cancelled;
  run.progress = [&](const Progress& progress) {
    EXPECT_EQ(progress.phase, "read");
    EXPECT_EQ(progress.total_bytes, 24000u);
    done.push_back(progress.done_bytes);
    if (progress.done_bytes >= cancel_at) is_cancelled = true;
  };
  ASSERT_TRUE(Load(*checkpoint, boxes, run).ok());
  EXPECT_EQ(done.front(), 0u);
  EXPECT_EQ(done.back(), 24000u);
  EXPECT_TRUE(std::ranges::is_sorted(done));
  EXPECT_GT(done.size(), 5u);

  cancel_at = 400;
  EXPECT_EQ(Load(*checkpoint, boxes, run).status().code(),
            StatusCode::kCancelled);
}

TEST_F(DeviceLoads, DamageIsTheHostsError) {
  SaveOptions options;
  options.chunk_bytes = 400;
  options.compression = Compression::kZstd;
  options.use_ocdbt = false;
  SaveAndOpen(
      Tree::Dict({{"w", Tree(RandomArray(DType::kFloat32, {60, 100}, 1))}}),
      options);
  {
    std::fstream file(path_ + "/w/30.0",
                      std::ios::binary | std::ios::in | std::ios::out);
    ASSERT_TRUE(file.good());
    file.seekp(100);
    file.put('?').put('!');
  }
  const auto checkpoint = *Open(path_);
  const auto on_host = checkpoint->Read(0);
  ASSERT_EQ(on_host.status().code(), StatusCode::kDataLoss);
  DeviceReadRequest request{0, {0, 0}, {}};
  request.target.dtype = DType::kFloat32;
  request.target.shape = {60, 100};
  request.target.address = twin_.Allocate(0, std::string(24000, 'g'));
  const auto loaded = loader_->Read(*checkpoint, {request}, {});
  EXPECT_EQ(loaded.status().ToString(), on_host.status().ToString());
}

TEST_F(DeviceLoads, CheckFingerprintsOfArraysInManyWindows) {
  SaveOptions options;
  options.chunk_bytes = 400;
  options.fingerprints = true;
  options.use_ocdbt = false;
  options.sync = false;
  OpenOptions open;
  open.fingerprints = true;
  Array array = RandomArray(DType::kFloat32, {60, 100}, 1);
  const Tree tree = Tree::Dict({{"w", Tree(array)}, {"x", Tree(array)}});
  const auto intact = SaveAndOpen(tree, options, open);
  const std::vector<TargetBox> boxes = AllBoxes(*intact);
  const auto loaded = Load(*intact, boxes);
  ASSERT_TRUE(loaded.ok()) << loaded.status().ToString();
  EXPECT_EQ(loaded->fingerprint_count, 2u);

  // Halves on two devices are the whole; a part and a cast are not checked.
  const auto count_of = [&](std::vector<TargetBox> some) {
    const auto read = Load(*intact, some);
    EXPECT_TRUE(read.ok()) << read.status().ToString();
    return read.ok() ? read->fingerprint_count : ~uint64_t{0};
  };
  const auto box = [&](int device, int64_t first, DType dtype) {
    return BoxOn(device, *intact, 0, {{0, first}, {60, 50}}, dtype,
                 ElementOrder::kRows);
  };
  EXPECT_EQ(count_of({box(0, 0, DType::kFloat32), box(1, 50, DType::kFloat32)}),
            1u);
  EXPECT_EQ(count_of({box(0, 0, DType::kFloat32)}), 0u);
  EXPECT_EQ(count_of({box(0, 0, DType::kFloat32), box(1, 25, DType::kFloat32)}),
            0u);
  EXPECT_EQ(count_of({box(0, 0, DType::kFloat32), box(1, 50, DType::kFloat16)}),
            0u);

  ForgeFingerprint(path_);
  const auto other = Open(path_, open);
  ASSERT_TRUE(other.ok()) << other.status().ToString();
  EXPECT_EQ(Load(**other, boxes).status().ToString(),
            (*other)->Read("w").status().ToString());
  EXPECT_EQ(Load(**other, boxes).status().code(), StatusCode::kDataLoss);
}

TEST_F(DeviceLoads, RefuseWhatTheHostRefusesAndOtherMemory) {
  const auto checkpoint = SmallCheckpoint();
  const TargetBox whole = BoxOn(0, *checkpoint, 0, BoxOf({60, 100}),
                                DType::kFloat32, ElementOrder::kRows);
  const auto message = [&](const auto& change) {
    DeviceReadRequest request = whole.request;
    change(request);
    const auto loaded = loader_->Read(*checkpoint, {request}, {});
    EXPECT_THAT(loaded.status().code(),
                AnyOf(StatusCode::kInvalidArgument, StatusCode::kOutOfRange));
    return std::string(loaded.status().message());
  };
  EXPECT_THAT(message([](auto& request) { request.leaf = 9; }),
              HasSubstr("leaf number 9 of 1"));
  EXPECT_THAT(message([](auto& request) { request.origin = {1, 0}; }),
              HasSubstr("leaf w"));
  EXPECT_THAT(message([](auto& request) { request.target.strides = {4}; }),
              HasSubstr("1 strides, want 2"));
  EXPECT_THAT(message([](auto& request) { request.target.address = 4096; }),
              HasSubstr("leaf w: twin: the array at 4096 is in host memory"));
  EXPECT_THAT(message([](auto& request) { request.target.address += 24004; }),
              HasSubstr("leaf w: twin: the array at"));
  EXPECT_THAT(
      message([](auto& request) { request.target.strides = {0, 4}; }),
      HasSubstr("leaf w: device array: dimension 0 repeats its elements"));
}

TEST_F(DeviceLoads, StayInTheirMemory) {
  SaveOptions options;
  options.chunk_bytes = 1000;
  const auto checkpoint = SaveAndOpen(
      Tree::Dict({{"w", Tree(RandomArray(DType::kFloat32, {300, 100}, 1))}}),
      options);
  const std::vector<TargetBox> boxes = {
      BoxOn(0, *checkpoint, 0, BoxOf({300, 100}), DType::kFloat32,
            ElementOrder::kRows)};
  RunOptions run;
  run.threads = 3;
  run.memory_bytes = 2000;  // one window of 1024
  ASSERT_TRUE(Load(*checkpoint, boxes, run).ok());
  EXPECT_TRUE(AreRight(boxes));
  EXPECT_EQ(twin_.pinned_bytes_peak(), 1024u);
  run.memory_bytes = 5000;  // for three lanes only 1024 each
  ASSERT_TRUE(Load(*checkpoint, boxes, run).ok());
  EXPECT_LE(twin_.pinned_bytes_peak(), 3u * 1024);
  run.memory_bytes = 0;
  ASSERT_TRUE(Load(*checkpoint, boxes, run).ok());
  EXPECT_LE(twin_.pinned_bytes_peak(), 3u * 1024 + 3 * 4096);
  const uint64_t kept_bytes = twin_.pinned_bytes();
  ASSERT_TRUE(Load(*checkpoint, boxes, run).ok());
  EXPECT_LE(twin_.pinned_bytes() - kept_bytes, 3u * 4096);
  EXPECT_LE(twin_.pinned_bytes_peak(), 3u * 1024 + 3 * 4096);
}

// A small load takes a small window, if that holds its chunks.
TEST_F(DeviceLoads, SmallLoadsTakeLittleMemory) {
  const auto checkpoint = SmallCheckpoint();
  const std::vector<TargetBox> small = {
      BoxOn(0, *checkpoint, 0, {{0, 0}, {2, 100}}, DType::kFloat32,
            ElementOrder::kRows)};
  ASSERT_TRUE(Load(*checkpoint, small).ok());
  EXPECT_TRUE(AreRight(small));
  EXPECT_EQ(twin_.pinned_bytes_peak(), 1024u);
}

// Whichever call of the driver fails: the load fails and names the leaf, or is
// right; no copy goes on; and the next load is right.
TEST_F(DeviceLoads, EachFailingCallIsAnErrorAndTheNextLoadIsRight) {
  const auto checkpoint = SmallCheckpoint();
  const Box part{{0, 0}, {6, 100}};
  int failed_count = 0, succeeded_count = 0;
  for (int call = 1; succeeded_count < 3; ++call) {
    SCOPED_TRACE(call);
    loader_ = std::make_unique<DeviceLoader>(twin_, SmallWindows());
    std::vector<TargetBox> boxes;
    for (const int device : {0, 1}) {
      boxes.push_back(BoxOn(device, *checkpoint, 0, part, DType::kFloat32,
                            ElementOrder::kRows));
    }
    boxes.push_back(BoxOn(1, *checkpoint, 0, {{30, 0}, {8, 100}},
                          DType::kFloat32, ElementOrder::kRows));
    RunOptions run;
    run.threads = 2;
    twin_.FailCall(call, UnavailableError("injected"));
    const auto loaded = Load(*checkpoint, boxes, run);
    twin_.FailCall(0, Status());
    if (loaded.ok()) {
      ++succeeded_count;
      EXPECT_TRUE(AreRight(boxes));
    } else {
      succeeded_count = 0;
      ++failed_count;
      EXPECT_EQ(loaded.status().code(), StatusCode::kUnavailable);
      EXPECT_THAT(std::string(loaded.status().message()),
                  AllOf(HasSubstr("injected"), HasSubstr("leaf w")));
    }
    const auto again = Load(*checkpoint, boxes, run);
    ASSERT_TRUE(again.ok()) << again.status().ToString();
    EXPECT_TRUE(AreRight(boxes));
    for (const TargetBox& box : boxes) twin_.Free(box.memory);
    if (call > 1000) break;
  }
  EXPECT_GT(failed_count, 30);
  loader_.reset();
  EXPECT_EQ(twin_.pinned_bytes(), 0u);
  EXPECT_EQ(twin_.handle_count(), 0u);
}

// Devices that compute fingerprints.
class DeviceLoadsThatCheck : public DeviceLoads {
 protected:
  DeviceLoadsThatCheck() {
    AddDeviceKernels(twin_);
    UseCompiler([this](std::string_view architecture) {
      EXPECT_EQ(architecture, "compute_90");
      ++compiled_count_;
      return std::string("image");
    });
  }

  void UseCompiler(KernelCompiler compile) {
    options_ = SmallWindows();
    options_.compile_kernels = std::move(compile);
    loader_ = std::make_unique<DeviceLoader>(twin_, options_);
  }

  std::unique_ptr<Checkpoint> WithFingerprints(const Tree& tree) {
    SaveOptions options;
    options.chunk_bytes = 400;
    options.fingerprints = true;
    return SaveAndOpen(tree, options, opened_);
  }
  std::unique_ptr<Checkpoint> SmallWithFingerprints() {
    return WithFingerprints(
        Tree::Dict({{"w", Tree(RandomArray(DType::kFloat32, {60, 100}, 1))}}));
  }

  TargetBox WholeOn(int device, const Checkpoint& checkpoint, size_t leaf,
                    ElementOrder layout = ElementOrder::kRows) {
    const LeafInfo& info = checkpoint.leaves()[leaf];
    return BoxOn(device, checkpoint, leaf, BoxOf(info.shape), *info.dtype,
                 layout);
  }

  // Loads while the last byte of a box's elements is stuck at another value.
  Result<Stats> LoadWithStuckByte(const Checkpoint& checkpoint,
                                  const std::vector<TargetBox>& boxes,
                                  const TargetBox& damaged) {
    const int device = twin_.Describe(damaged.memory)->device;
    const size_t at = damaged.want.size() / 2 - 1;
    const std::string byte(1, static_cast<char>(damaged.want[at] ^ 1));
    std::atomic<bool> has_ended{false};
    const DeviceStream stream = *twin_.CreateStream(device);
    twin_.Queue(device, stream, [&] {
      if (!has_ended) twin_.Write(damaged.memory + at, byte);
      return has_ended.load();
    });
    auto loaded = Load(checkpoint, boxes);
    has_ended = true;
    twin_.RunAll();
    twin_.DestroyStream(device, stream);
    return loaded;
  }

  const OpenOptions opened_ = [] {
    OpenOptions options;
    options.fingerprints = true;
    return options;
  }();
  DeviceLoaderOptions options_;
  int compiled_count_ = 0;
};

TEST_F(DeviceLoadsThatCheck, FindOneBitInAnyArray) {
  const auto checkpoint = WithFingerprints(AllKindsTree());
  std::vector<TargetBox> boxes;
  const auto& leaves = checkpoint->leaves();
  for (size_t leaf = 0; leaf < leaves.size(); ++leaf) {
    if (leaves[leaf].fingerprint.empty()) continue;
    boxes.push_back(WholeOn(static_cast<int>(leaf % 2), *checkpoint, leaf));
  }
  ASSERT_GT(boxes.size(), StorableDTypes().size());
  const uint64_t device_bytes = twin_.device_bytes(0);
  const auto intact = Load(*checkpoint, boxes);
  ASSERT_TRUE(intact.ok()) << intact.status().ToString();
  EXPECT_EQ(intact->fingerprint_count, boxes.size());
  EXPECT_TRUE(AreRight(boxes));
  EXPECT_EQ(twin_.device_bytes(0), device_bytes);
  for (const TargetBox& damaged : boxes) {
    const LeafInfo& leaf = leaves[damaged.request.leaf];
    SCOPED_TRACE(leaf.name);
    const auto loaded = LoadWithStuckByte(*checkpoint, boxes, damaged);
    EXPECT_EQ(loaded.status().code(), StatusCode::kDataLoss);
    EXPECT_THAT(
        std::string(loaded.status().message()),
        AllOf(HasSubstr("device " + std::to_string(damaged.request.leaf % 2) +
                        ": tensor " + leaf.name + ": fingerprint got "),
              HasSubstr("want " + leaf.fingerprint +
                        ": the elements in memory are not those")));
  }
  EXPECT_EQ(twin_.device_bytes(0), device_bytes);
  EXPECT_EQ(compiled_count_, 1);
}

TEST_F(DeviceLoadsThatCheck, CheckEachReplica) {
  const auto checkpoint = SmallWithFingerprints();
  const std::vector<TargetBox> boxes = {WholeOn(0, *checkpoint, 0),
                                        WholeOn(1, *checkpoint, 0),
                                        WholeOn(1, *checkpoint, 0)};
  const auto intact = Load(*checkpoint, boxes);
  ASSERT_TRUE(intact.ok()) << intact.status().ToString();
  EXPECT_EQ(intact->fingerprint_count, 1u);
  for (size_t i = 0; i < boxes.size(); ++i) {
    SCOPED_TRACE(i);
    const auto loaded = LoadWithStuckByte(*checkpoint, boxes, boxes[i]);
    EXPECT_EQ(loaded.status().code(), StatusCode::kDataLoss);
    EXPECT_THAT(
        std::string(loaded.status().message()),
        HasSubstr(i == 0 ? "device 0: tensor w" : "device 1: tensor w"));
  }
}

// The host checks no array of which a part is also wanted elsewhere.
TEST_F(DeviceLoadsThatCheck, CheckOnlyCompleteArraysInTheirOwnDType) {
  const auto checkpoint = SmallWithFingerprints();
  const TargetBox half = BoxOn(0, *checkpoint, 0, {{0, 0}, {30, 100}},
                               DType::kFloat32, ElementOrder::kRows);
  const TargetBox cast = BoxOn(0, *checkpoint, 0, BoxOf({60, 100}),
                               DType::kFloat64, ElementOrder::kRows);
  EXPECT_EQ(Load(*checkpoint, {half})->fingerprint_count, 0u);
  EXPECT_EQ(Load(*checkpoint, {cast})->fingerprint_count, 0u);
  EXPECT_EQ(compiled_count_, 0);
  const TargetBox whole = WholeOn(1, *checkpoint, 0);
  EXPECT_EQ(Load(*checkpoint, {half, cast, whole})->fingerprint_count, 1u);
  EXPECT_EQ(
      LoadWithStuckByte(*checkpoint, {half, whole}, whole).status().code(),
      StatusCode::kDataLoss);
}

// The host checks it before it is copied.
TEST_F(DeviceLoadsThatCheck, TheHostChecksWhatDevicesCannot) {
  const auto checkpoint = SmallWithFingerprints();
  // Nobody sees a byte of the last box that is wrong on its device.
  const auto expect_host_checks = [&](const std::vector<TargetBox>& boxes) {
    const auto loaded = LoadWithStuckByte(*checkpoint, boxes, boxes.back());
    ASSERT_TRUE(loaded.ok()) << loaded.status().ToString();
    EXPECT_EQ(loaded->fingerprint_count, 1u);
  };
  const TargetBox rows = WholeOn(1, *checkpoint, 0);
  const TargetBox columns = WholeOn(0, *checkpoint, 0, ElementOrder::kColumns);
  expect_host_checks({columns});
  expect_host_checks({rows, columns});
  const auto loaded = LoadWithStuckByte(*checkpoint, {rows, columns}, rows);
  EXPECT_EQ(loaded.status().code(), StatusCode::kDataLoss);

  // A device without room for the sums.
  const DeviceTwin::Options full{.device_count = 2,
                                 .device_bytes_max = twin_.device_bytes(1)};
  twin_.SetOptions(full);
  expect_host_checks({rows});
  twin_.SetOptions({.device_count = 2});

  // Sums that do not fit into a window.
  options_.window_bytes = {64};
  loader_ = std::make_unique<DeviceLoader>(twin_, options_);
  expect_host_checks({rows});

  int compiled_count = 0;
  UseCompiler([&](std::string_view) -> Result<std::string> {
    ++compiled_count;
    return FailedPreconditionError("no library");
  });
  expect_host_checks({rows});
  expect_host_checks({rows});
  EXPECT_EQ(compiled_count, 1);
}

TEST_F(DeviceLoadsThatCheck, AnImageWithoutTheKernelsIsNoFailure) {
  DeviceTwin twin;
  DeviceLoader loader(twin, options_);
  const auto checkpoint = SmallWithFingerprints();
  TargetBox box = WholeOn(0, *checkpoint, 0);
  box.request.target.address = twin.Allocate(0, std::string(24000, 'g'));
  const auto loaded = loader.Read(*checkpoint, {box.request}, {});
  ASSERT_TRUE(loaded.ok()) << loaded.status().ToString();
  EXPECT_EQ(loaded->fingerprint_count, 1u);
}

TEST_F(DeviceLoadsThatCheck, KernelsAreLoadedOnce) {
  const auto checkpoint = SmallWithFingerprints();
  const TargetBox box = WholeOn(0, *checkpoint, 0);
  ASSERT_TRUE(Load(*checkpoint, {box}).ok());
  twin_.AddKernel("holdfast_sum_box", [](const auto&, const auto&) {});
  const auto again = Load(*checkpoint, {box});
  EXPECT_TRUE(again.ok()) << again.status().ToString();
}

TEST_F(DeviceLoadsThatCheck, CanBeCancelled) {
  const auto checkpoint = SmallWithFingerprints();
  std::atomic<bool> is_cancelled{false};
  RunOptions run;
  run.cancel = &is_cancelled;
  run.progress = [&](const Progress& progress) {
    if (progress.done_bytes == progress.total_bytes) is_cancelled = true;
  };
  const auto loaded = Load(*checkpoint, {WholeOn(0, *checkpoint, 0)}, run);
  EXPECT_EQ(loaded.status().code(), StatusCode::kCancelled);
}

TEST_F(DeviceLoadsThatCheck, CompileNothingIfThereAreNoFingerprints) {
  const auto checkpoint = SmallCheckpoint();
  EXPECT_EQ(Load(*checkpoint, {WholeOn(0, *checkpoint, 0)})->fingerprint_count,
            0u);
  EXPECT_EQ(compiled_count_, 0);
}

// The device finds the difference; the host has not looked.
TEST_F(DeviceLoadsThatCheck, AForgedFingerprintIsTheHostsErrorWithTheDevice) {
  const TargetBox box = WholeOn(1, *SmallWithFingerprints(), 0);
  ForgeFingerprint(path_);
  const auto checkpoint = *Open(path_, opened_);
  const Status loaded = Load(*checkpoint, {box}).status();
  EXPECT_EQ(loaded.ToString(),
            checkpoint->Read("w").status().WithContext("device 1").ToString());
}

// Whichever call fails, no memory is freed while the device uses it, and none
// is kept.
TEST_F(DeviceLoadsThatCheck,
       EachFailingCallIsAnErrorOrLeavesTheCheckToTheHost) {
  const auto checkpoint = WithFingerprints(
      Tree::Dict({{"w", Tree(RandomArray(DType::kFloat32, {6, 100}, 1))}}));
  const std::vector<TargetBox> boxes = {WholeOn(0, *checkpoint, 0),
                                        WholeOn(1, *checkpoint, 0)};
  const Outcomes outcomes = LoadWithEachCallFailing(
      *checkpoint, boxes, options_,
      [](const Stats& stats) { EXPECT_EQ(stats.fingerprint_count, 1u); });
  EXPECT_GT(outcomes.failed_count, 30);
  EXPECT_GE(outcomes.succeeded_count,
            12);  // what it takes to load kernels twice
}

class DeviceLoadsThatStall : public DeviceLoads {
 protected:
  DeviceLoadsThatStall() {
    DeviceLoaderOptions options = SmallWindows();
    options.wait_seconds_max = 1;
    loader_ = std::make_unique<DeviceLoader>(twin_, options);
  }
};

TEST_F(DeviceLoadsThatStall, CopiesThatDoNotEndKeepTheirMemory) {
  const auto checkpoint = SmallCheckpoint();
  const auto owner = std::make_shared<int>(0);
  std::vector<TargetBox> boxes = {BoxOn(0, *checkpoint, 0, BoxOf({60, 100}),
                                        DType::kFloat32, ElementOrder::kRows)};
  boxes[0].request.target.owner = owner;
  twin_.Stall(true);
  const auto late = Load(*checkpoint, boxes);
  EXPECT_EQ(late.status().code(), StatusCode::kDeadlineExceeded);
  EXPECT_THAT(std::string(late.status().message()),
              HasSubstr("leaf w: device 0: twin: device 0 has not finished"));
  boxes[0].request.target.owner.reset();
  EXPECT_GT(owner.use_count(), 1);
  EXPECT_GT(twin_.pinned_bytes(), 0u);
  twin_.Stall(false);
  const auto loaded = Load(*checkpoint, boxes);
  ASSERT_TRUE(loaded.ok()) << loaded.status().ToString();
  EXPECT_TRUE(AreRight(boxes));
  loader_.reset();
  EXPECT_EQ(owner.use_count(), 1);
  EXPECT_EQ(twin_.pinned_bytes(), 0u);
}

// Twins of devices that fail for good outlive the tests: their slots are kept.
class DeviceLoadsThatFail : public DeviceLoads {
 protected:
  DeviceTwin& NewTwin() {
    static auto& twins = *new std::vector<std::unique_ptr<DeviceTwin>>();
    return *twins.emplace_back(std::make_unique<DeviceTwin>());
  }

  static DeviceReadRequest RequestOn(DeviceTwin& twin) {
    DeviceReadRequest request{0, {0, 0}, {}};
    request.target.dtype = DType::kFloat32;
    request.target.shape = {60, 100};
    request.target.address = twin.Allocate(0, std::string(24000, 'g'));
    return request;
  }
};

TEST_F(DeviceLoadsThatFail, ACopyThatIsCutOffIsAnError) {
  const auto checkpoint = SmallCheckpoint();
  int failed_count = 0;
  for (int copy = 1; copy < 100; ++copy) {
    SCOPED_TRACE(copy);
    DeviceTwin& twin = NewTwin();
    DeviceLoader loader(twin, SmallWindows());
    const auto request = RequestOn(twin);
    twin.CutCopy(copy);
    const auto loaded = loader.Read(*checkpoint, {request}, {});
    EXPECT_THAT(twin.violations(), IsEmpty());
    if (loaded.ok()) break;
    ++failed_count;
    EXPECT_EQ(loaded.status().code(), StatusCode::kUnavailable);
    EXPECT_THAT(std::string(loaded.status().message()),
                HasSubstr("leaf w: device 0: twin: a copy was cut off"));
  }
  EXPECT_GE(failed_count, 6);
}

TEST_F(DeviceLoadsThatFail, ALostDeviceIsAnErrorAndItsOwnersAreKept) {
  const auto checkpoint = SmallCheckpoint();
  DeviceTwin& twin = NewTwin();
  const auto owner = std::make_shared<int>(0);
  std::optional<DeviceLoader> loader(std::in_place, twin, SmallWindows());
  {
    auto request = RequestOn(twin);
    request.target.owner = owner;
    RunOptions run;
    run.threads = 1;
    run.progress = [&](const Progress& progress) {
      if (progress.done_bytes >= 8000) twin.Lose();
    };
    const auto loaded = loader->Read(*checkpoint, {request}, run);
    EXPECT_EQ(loaded.status().code(), StatusCode::kUnavailable);
    EXPECT_THAT(std::string(loaded.status().message()), HasSubstr("leaf w"));
    EXPECT_THAT(std::string(loaded.status().message()), HasSubstr("is lost"));
    run.progress = nullptr;
    EXPECT_EQ(loader->Read(*checkpoint, {request}, run).status().code(),
              StatusCode::kUnavailable);
  }
  loader.reset();
  // A copy call failed, which may have begun part of the copy.
  EXPECT_GT(owner.use_count(), 1);
  EXPECT_GT(twin.pinned_bytes(), 0u);
  EXPECT_THAT(twin.violations(), IsEmpty());
}

// A twin whose second copy is refused, while the first is queued.
class RefusesSecondCopy : public DeviceTwin {
 public:
  Status CopyToDevice(int device, const RowCopy& copy,
                      DeviceStream stream) override {
    if (++copy_count_ == 2) return UnavailableError("refused");
    return DeviceTwin::CopyToDevice(device, copy, stream);
  }

 private:
  int copy_count_ = 0;
};

TEST_F(DeviceLoadsThatFail, NoCopyGoesOnAfterAnotherIsRefused) {
  const auto checkpoint = SmallCheckpoint();
  RefusesSecondCopy twin;
  DeviceLoader loader(twin, SmallWindows());
  auto request = RequestOn(twin);
  const auto owner = std::make_shared<int>(0);
  request.target.owner = owner;
  RunOptions run;
  run.threads = 1;
  const auto loaded = loader.Read(*checkpoint, {request}, run);
  EXPECT_EQ(std::string(loaded.status().message()),
            "leaf w: device 0: refused");
  EXPECT_EQ(owner.use_count(), 2);
  twin.Free(request.target.address);
  twin.RunAll();
  EXPECT_THAT(twin.violations(), IsEmpty());
}

class DeviceLoadsWithoutPinnedMemory : public DeviceLoads {
 protected:
  DeviceLoadsWithoutPinnedMemory()
      : DeviceLoads({.device_count = 2,
                     .pinned_bytes_max = 100,
                     .allows_pageable = true}) {}
};

TEST_F(DeviceLoadsWithoutPinnedMemory, UseOrdinaryMemoryAndSaySoOnce) {
  const auto checkpoint = SmallCheckpoint();
  const std::vector<TargetBox> boxes = {BoxOn(0, *checkpoint, 0,
                                              BoxOf({60, 100}), DType::kFloat32,
                                              ElementOrder::kRows)};
  ::testing::internal::CaptureStderr();
  for (int i = 0; i < 2; ++i) {
    const auto loaded = Load(*checkpoint, boxes);
    ASSERT_TRUE(loaded.ok()) << loaded.status().ToString();
  }
  EXPECT_EQ(::testing::internal::GetCapturedStderr(),
            "holdfast: twin: no pinned memory; copies between device 0 and the "
            "host use ordinary memory, and are slower\n");
  EXPECT_TRUE(AreRight(boxes));
}

}  // namespace
}  // namespace holdfast
