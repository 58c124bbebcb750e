// Loads whose byte planes devices (the twin's) decode: equal to what the host
// reads, in every dtype and layout, with fewer bytes over the bus; damage,
// refused memory and failing calls.
#include <filesystem>
#include <fstream>
#include <random>

#include "checkpoint/device_loads.h"
#include "checkpoint/forged_fingerprint.h"
#include "twins/host_kernels.h"

namespace holdfast {
namespace {

// Elements as a model has them: one plane is noise, which is stored as it is,
// and the bytes of the others are unevenly frequent; no string repeats.
Array SkewedArray(DType dtype, Shape shape, uint32_t seed) {
  std::mt19937 random(seed);
  std::geometric_distribution<int> skewed(0.25);
  Array array = *Array::Allocate(dtype, std::move(shape));
  char* data = array.mutable_view().data;
  const int bits = DTypeBits(dtype);
  const int mask = dtype == DType::kBool ? 1 : bits < 8 ? (1 << bits) - 1 : 255;
  for (size_t i = 0; i < array.byte_count(); ++i) {
    const bool is_noise = i % DTypeBytes(dtype) == 0 && DTypeBytes(dtype) > 1;
    const int byte = is_noise ? static_cast<int>(random()) : skewed(random);
    data[i] = static_cast<char>(byte & mask);
  }
  return array;
}

// The share of bytes over the bus that only decoding on the device stays below.
constexpr double kLessThanAll = 0.95;

class DevicePlanesLoads : public DeviceLoads {
 protected:
  static constexpr uint64_t kChunkBytes = uint64_t{32} << 10;

  explicit DevicePlanesLoads(
      const DeviceTwin::Options& options = {.device_count = 2})
      : DeviceLoads(options) {
    AddDeviceKernels(twin_);
    options_.window_bytes = {uint64_t{64} << 10, uint64_t{160} << 10};
    options_.lane_count_max = 3;
    options_.pinned_bytes_max = 3 * (uint64_t{160} << 10);
    options_.wait_seconds_max = 20;
    options_.decode_bytes_min = 0;
    options_.decode_chunk_bytes_min = 2048;
    options_.compile_kernels = [this](std::string_view) {
      ++compiled_count_;
      return std::string("image");
    };
    NewLoader();
  }

  void NewLoader() {
    loader_ = std::make_unique<DeviceLoader>(twin_, options_);
  }

  static SaveOptions Planes() {
    SaveOptions options;
    options.chunk_bytes = kChunkBytes;
    options.compression = Compression::kPlanes;
    return options;
  }

  std::unique_ptr<Checkpoint> SaveArray(const Array& array,
                                        const SaveOptions& options = Planes(),
                                        const OpenOptions& open = {}) {
    return SaveAndOpen(Tree::Dict({{"w", Tree(array)}}), options, open);
  }
  // Six chunks.
  std::unique_ptr<Checkpoint> SaveSixChunks() {
    return SaveArray(SkewedArray(DType::kBfloat16, {96, 1024}, 1));
  }

  TargetBox WholeOn(int device, const Checkpoint& checkpoint,
                    ElementOrder layout = ElementOrder::kRows,
                    size_t leaf = 0) {
    const LeafInfo& info = checkpoint.leaves()[leaf];
    return BoxOn(device, checkpoint, leaf, BoxOf(info.shape), *info.dtype,
                 layout);
  }

  // Loads, compares, and returns the bytes that crossed the bus for each
  // decoded byte.
  double BusShareOf(const Checkpoint& checkpoint,
                    const std::vector<TargetBox>& boxes) {
    const uint64_t before = twin_.copied_to_device_bytes();
    const uint64_t device_bytes = twin_.device_bytes(0);
    const auto loaded = Load(checkpoint, boxes);
    EXPECT_TRUE(loaded.ok()) << loaded.status().ToString();
    EXPECT_TRUE(AreRight(boxes));
    EXPECT_EQ(twin_.device_bytes(0), device_bytes);
    if (!loaded.ok()) return 0;
    EXPECT_LE(loaded->device_decoded_bytes, loaded->decoded_bytes);
    return static_cast<double>(twin_.copied_to_device_bytes() - before) /
           static_cast<double>(loaded->decoded_bytes);
  }

  DeviceLoaderOptions options_;
  int compiled_count_ = 0;
};

TEST_F(DevicePlanesLoads, EqualHostLoadsInEveryDType) {
  for (const DType dtype : StorableDTypes()) {
    SCOPED_TRACE(DTypeName(dtype));
    const auto item_bytes = static_cast<int64_t>(DTypeBytes(dtype));
    const auto checkpoint =
        SaveArray(SkewedArray(dtype, {96, 2048 / item_bytes}, 1));
    const double share = BusShareOf(*checkpoint, {WholeOn(0, *checkpoint)});
    // Elements of one byte are not stored as planes.
    EXPECT_EQ(share < kLessThanAll, item_bytes > 1) << share;
  }
  EXPECT_EQ(compiled_count_, 1);
}

TEST_F(DevicePlanesLoads, EqualHostLoadsInEveryWayOfSaving) {
  std::vector<SaveOptions> ways(5, Planes());
  ways[1].zarr_format = 3;
  ways[2].use_ocdbt = false;
  ways[3].format = Format::kOrbaxV1;
  ways[4].fingerprints = true;
  const Array array = SkewedArray(DType::kFloat32, {96, 512}, 1);
  for (size_t way = 0; way < ways.size(); ++way) {
    for (const bool verify : {true, false}) {
      SCOPED_TRACE(testing::Message() << way << verify);
      OpenOptions open;
      open.verify = verify;
      const auto checkpoint = SaveArray(array, ways[way], open);
      EXPECT_LT(BusShareOf(*checkpoint, {WholeOn(0, *checkpoint)}),
                kLessThanAll);
    }
  }
}

// Columns are not in the chunks' order, so the host decodes them. Each replica
// is a copy of another target.
TEST_F(DevicePlanesLoads, EqualHostLoadsInEveryLayoutOnBothDevices) {
  const auto checkpoint = SaveSixChunks();
  for (const ElementOrder first : kElementOrders) {
    for (const ElementOrder second : kElementOrders) {
      const double share = BusShareOf(
          *checkpoint,
          {WholeOn(0, *checkpoint, first), WholeOn(1, *checkpoint, second)});
      if (first == ElementOrder::kRows && second == first) {
        EXPECT_LT(share, kLessThanAll);
      }
    }
  }
}

// The box begins in the middle of the first chunk.
TEST_F(DevicePlanesLoads, ChunksThatTheHostDecodesLieBesideOthers) {
  options_.window_bytes = {uint64_t{1} << 20};
  options_.pinned_bytes_max = uint64_t{4} << 20;
  NewLoader();
  const auto checkpoint = SaveSixChunks();
  const uint64_t before = twin_.copied_to_device_bytes();
  const std::vector<TargetBox> boxes = {
      BoxOn(0, *checkpoint, 0, {{3, 0}, {93, 1024}}, DType::kBfloat16,
            ElementOrder::kRows)};
  ASSERT_TRUE(Load(*checkpoint, boxes).ok());
  EXPECT_TRUE(AreRight(boxes));
  // The piece, and the encoded chunks.
  EXPECT_GT(twin_.copied_to_device_bytes() - before, 93u * 2048 * 5 / 4);
}

TEST_F(DevicePlanesLoads, ReadAnyBoxesWithCasts) {
  const auto checkpoint = SaveAndOpen(
      Tree::Dict({{"a", Tree(SkewedArray(DType::kInt16, {96, 32, 32}, 1))},
                  {"b", Tree(SkewedArray(DType::kBfloat16, {100'000}, 2))},
                  {"c", Tree(RandomArray(DType::kFloat32, {64, 512}, 3))}}),
      Planes());
  for (uint32_t round = 0; round < 40; ++round) {
    SCOPED_TRACE(round);
    std::mt19937 random(round);
    std::vector<TargetBox> boxes;
    for (int i = 0; i < 6; ++i) {
      const size_t leaf = random() % 3;
      Box box = BoxOf(checkpoint->leaves()[leaf].shape);
      if (random() % 2 == 0) {
        box.origin[0] = random() % box.shape[0];
        box.shape[0] = random() % (box.shape[0] - box.origin[0]) + 1;
      }
      const DType dtype = *checkpoint->leaves()[leaf].dtype;
      boxes.push_back(BoxOn(random() % 2, *checkpoint, leaf, box,
                            random() % 4 == 0 ? DType::kFloat64 : dtype,
                            kElementOrders[random() % 4]));
    }
    (void)BusShareOf(*checkpoint, boxes);
    for (const TargetBox& box : boxes) twin_.Free(box.memory);
  }
}

TEST_F(DevicePlanesLoads, MissingChunksAreFilled) {
  SaveOptions options = Planes();
  options.use_ocdbt = false;
  SaveArray(SkewedArray(DType::kBfloat16, {96, 1024}, 1), options);
  ASSERT_TRUE(std::filesystem::remove(path_ + "/w/2.0"));
  std::filesystem::remove(path_ + "/_HOLDFAST_DIGESTS");
  OpenOptions open;
  open.missing_chunks = MissingChunks::kFill;
  const auto checkpoint = *Open(path_, open);
  (void)BusShareOf(*checkpoint, {WholeOn(0, *checkpoint)});
}

// Damage in the chunk of the last window, with and without a list of checksums.
TEST_F(DevicePlanesLoads, DamageIsTheHostsError) {
  SaveOptions options = Planes();
  options.use_ocdbt = false;
  const Array array = SkewedArray(DType::kBfloat16, {96, 1024}, 1);
  int damaged_count = 0;
  for (const bool verify : {true, false}) {
    for (int64_t at = 20; at < 12'000; at += 499) {
      SCOPED_TRACE(at);
      SaveArray(array, options);
      {
        std::fstream file(path_ + "/w/5.0",
                          std::ios::binary | std::ios::in | std::ios::out);
        file.seekg(at);
        const int byte = file.get();
        file.seekp(at);
        file.put(static_cast<char>(byte ^ 4));
        ASSERT_TRUE(file.good());
      }
      OpenOptions open;
      open.verify = verify;
      const auto checkpoint = *Open(path_, open);
      const auto on_host = checkpoint->Read(0);
      DeviceReadRequest request{0, {0, 0}, {}};
      request.target.dtype = DType::kBfloat16;
      request.target.shape = {96, 1024};
      const uint64_t byte_count = array.byte_count();
      request.target.address = twin_.Allocate(0, std::string(byte_count, 'g'));
      RunOptions run;
      run.threads = 1;  // one decoder for all windows
      const auto loaded = loader_->Read(*checkpoint, {request}, run);
      EXPECT_EQ(loaded.status().ToString(), on_host.status().ToString());
      if (!loaded.ok()) ++damaged_count;
      twin_.Free(request.target.address);
    }
  }
  EXPECT_GT(damaged_count, 44);
}

TEST_F(DevicePlanesLoads, ATruncatedFileIsTheHostsError) {
  options_.window_bytes = {uint64_t{1} << 20};
  options_.pinned_bytes_max = uint64_t{4} << 20;
  NewLoader();
  SaveOptions options = Planes();
  options.chunk_bytes = uint64_t{1}
                        << 20;  // one chunk, which is read by itself
  for (const bool verify : {true, false}) {
    SaveArray(SkewedArray(DType::kBfloat16, {96, 1024}, 1), options);
    std::filesystem::path data;
    for (const auto& entry :
         std::filesystem::recursive_directory_iterator(path_)) {
      if (!entry.is_regular_file()) continue;
      if (data.empty() || entry.file_size() > file_size(data)) data = entry;
    }
    std::filesystem::resize_file(data, file_size(data) / 2);
    OpenOptions open;
    open.verify = verify;
    const auto checkpoint = *Open(path_, open);
    const Status on_host = checkpoint->Read(0).status();
    EXPECT_FALSE(on_host.ok());
    DeviceReadRequest request{0, {0, 0}, {}};
    request.target.dtype = DType::kBfloat16;
    request.target.shape = {96, 1024};
    request.target.address = twin_.Allocate(0, std::string(96 * 2048, 'g'));
    RunOptions run;
    run.threads = 1;
    const auto loaded = loader_->Read(*checkpoint, {request}, run);
    EXPECT_EQ(loaded.status().ToString(), on_host.ToString()) << verify;
  }
}

TEST_F(DevicePlanesLoads, CheckFingerprintsOfDecodedArrays) {
  SaveOptions options = Planes();
  options.fingerprints = true;
  options.use_ocdbt = false;
  OpenOptions open;
  open.fingerprints = true;
  const Array array = SkewedArray(DType::kBfloat16, {96, 1024}, 1);
  for (const uint64_t window_bytes : {64 << 10, 1024 << 10}) {
    SCOPED_TRACE(window_bytes);
    options_.window_bytes = {window_bytes};
    options_.pinned_bytes_max = 4 * window_bytes;
    NewLoader();
    const auto checkpoint = SaveArray(array, options, open);
    const std::vector<TargetBox> boxes = {WholeOn(0, *checkpoint),
                                          WholeOn(1, *checkpoint)};
    EXPECT_LT(BusShareOf(*checkpoint, boxes), kLessThanAll);
    const auto loaded = Load(*checkpoint, boxes);
    ASSERT_TRUE(loaded.ok()) << loaded.status().ToString();
    EXPECT_EQ(loaded->fingerprint_count, 1u);
    EXPECT_EQ(loaded->device_decoded_bytes, array.byte_count());
    // Two halves are the whole; the host decodes and compares them.
    const auto halves =
        Load(*checkpoint, {BoxOn(0, *checkpoint, 0, {{0, 0}, {48, 1024}},
                                 DType::kBfloat16, ElementOrder::kRows),
                           BoxOn(1, *checkpoint, 0, {{48, 0}, {48, 1024}},
                                 DType::kBfloat16, ElementOrder::kRows)});
    ASSERT_TRUE(halves.ok()) << halves.status().ToString();
    EXPECT_EQ(halves->fingerprint_count, 1u);
    ForgeFingerprint(path_);
    const auto forged = *Open(path_, open);
    EXPECT_EQ(Load(*forged, boxes).status().ToString(),
              forged->Read("w").status().WithContext("device 0").ToString());
  }
}

TEST_F(DevicePlanesLoads, SmallLoadsDoNotWaitForACompiler) {
  options_.decode_bytes_min = 1'000'000;
  NewLoader();
  const auto small = SaveSixChunks();
  EXPECT_GE(BusShareOf(*small, {WholeOn(0, *small)}), 1);
  EXPECT_EQ(compiled_count_, 0);
  const auto large = SaveArray(SkewedArray(DType::kBfloat16, {512, 1024}, 1));
  EXPECT_LT(BusShareOf(*large, {WholeOn(0, *large)}), kLessThanAll);
  EXPECT_EQ(compiled_count_, 1);
  // Once the kernels are there, they serve small loads as well.
  const auto again = SaveSixChunks();
  EXPECT_LT(BusShareOf(*again, {WholeOn(0, *again)}), kLessThanAll);
  EXPECT_GE(BusShareOf(*again, {WholeOn(1, *again)}), 1);
}

TEST_F(DevicePlanesLoads, WithoutACompilerTheHostDecodes) {
  options_.compile_kernels = [](std::string_view) -> Result<std::string> {
    return NotFoundError("no NVRTC");
  };
  NewLoader();
  const auto checkpoint = SaveSixChunks();
  EXPECT_GE(BusShareOf(*checkpoint, {WholeOn(0, *checkpoint)}), 1);
}

// Chunks that planes do not make smaller are not worth the work.
TEST_F(DevicePlanesLoads, TheHostDecodesWhatDoesNotGetSmaller) {
  const auto checkpoint = SaveArray(RandomArray(DType::kInt32, {96, 512}, 1));
  EXPECT_GE(BusShareOf(*checkpoint, {WholeOn(0, *checkpoint)}), 1);
}

TEST_F(DevicePlanesLoads, ADeviceWithoutRoomLeavesTheWorkToTheHost) {
  const auto checkpoint = SaveSixChunks();
  const std::vector<TargetBox> boxes = {WholeOn(0, *checkpoint)};
  DeviceTwin::Options options = {.device_count = 2};
  options.device_bytes_max = twin_.device_bytes(0) + (120 << 10);
  twin_.SetOptions(options);
  Progress last;
  RunOptions run;
  run.progress = [&](const Progress& progress) { last = progress; };
  const auto loaded = Load(*checkpoint, boxes, run);
  ASSERT_TRUE(loaded.ok()) << loaded.status().ToString();
  EXPECT_TRUE(AreRight(boxes));
  EXPECT_EQ(loaded->device_decoded_bytes, 0u);
  EXPECT_EQ(loaded->decoded_bytes, 96u * 1024 * 2);
  EXPECT_EQ(loaded->chunk_count, 6u);
  EXPECT_EQ(last.done_bytes, last.total_bytes);
  // It takes at most half of what is free.
  EXPECT_LE(twin_.device_bytes_peak(0) - twin_.device_bytes(0), 60u << 10);
}

TEST_F(DevicePlanesLoads, EachFailingCallIsAnErrorOrLeavesTheWorkToTheHost) {
  const auto checkpoint = SaveSixChunks();
  const std::vector<TargetBox> boxes = {WholeOn(0, *checkpoint),
                                        WholeOn(1, *checkpoint)};
  const Outcomes outcomes = LoadWithEachCallFailing(
      *checkpoint, boxes, options_, [](const Stats&) {});
  EXPECT_GT(outcomes.failed_count, 30);
  EXPECT_GE(outcomes.succeeded_count, 6);  // what it takes to load kernels
}

// The tables of many small chunks do not fit beside one of them.
TEST_F(DevicePlanesLoads, ManySmallChunksTakeSeveralBatches) {
  options_.window_bytes = {uint64_t{1} << 20};
  options_.pinned_bytes_max = uint64_t{4} << 20;
  NewLoader();
  SaveOptions options = Planes();
  options.chunk_bytes = 4096;
  const Array array = SkewedArray(DType::kFloat32, {256, 1024}, 1);
  const auto checkpoint = SaveArray(array, options);
  const std::vector<TargetBox> boxes = {WholeOn(0, *checkpoint)};
  EXPECT_LT(BusShareOf(*checkpoint, boxes), kLessThanAll);
  const auto loaded = Load(*checkpoint, boxes);
  ASSERT_TRUE(loaded.ok()) << loaded.status().ToString();
  EXPECT_EQ(loaded->chunk_count, 256u);
  EXPECT_EQ(loaded->device_decoded_bytes, array.byte_count());
}

TEST_F(DevicePlanesLoads, ChunksLargerThanAWindowCountOnce) {
  SaveOptions options = Planes();
  options.chunk_bytes = uint64_t{1} << 20;
  options.fingerprints = true;
  OpenOptions open;
  open.fingerprints = true;
  const auto checkpoint =
      SaveArray(SkewedArray(DType::kFloat32, {256, 1024}, 1), options, open);
  const std::vector<TargetBox> boxes = {WholeOn(0, *checkpoint)};
  const auto loaded = Load(*checkpoint, boxes);
  ASSERT_TRUE(loaded.ok()) << loaded.status().ToString();
  EXPECT_TRUE(AreRight(boxes));
  EXPECT_EQ(loaded->fingerprint_count, 1u);
}

TEST_F(DevicePlanesLoads, AllLanesShareHalfOfTheFreeMemory) {
  const auto checkpoint =
      SaveArray(SkewedArray(DType::kBfloat16, {1024, 1024}, 1));
  const std::vector<TargetBox> boxes = {WholeOn(0, *checkpoint)};
  const uint64_t base_bytes = twin_.device_bytes(0);
  DeviceTwin::Options options = {.device_count = 2};
  const uint64_t free_bytes = uint64_t{2} << 20;
  options.device_bytes_max = base_bytes + free_bytes;
  twin_.SetOptions(options);
  RunOptions run;
  run.threads = 6;
  const auto loaded = Load(*checkpoint, boxes, run);
  ASSERT_TRUE(loaded.ok()) << loaded.status().ToString();
  EXPECT_TRUE(AreRight(boxes));
  EXPECT_GT(twin_.device_bytes_peak(0), base_bytes);
  EXPECT_LE(twin_.device_bytes_peak(0) - base_bytes, free_bytes / 2);
}

// A twin that has no memory left to launch kernels.
class RefusesLaunches : public DeviceTwin {
 public:
  Status Launch(int, DeviceKernel, const KernelGrid&,
                std::span<const KernelArgument>, DeviceStream) override {
    return ResourceExhaustedError("refused");
  }
};

TEST_F(DevicePlanesLoads, ALaunchWithoutMemoryLeavesTheWorkToTheHost) {
  const Array array = SkewedArray(DType::kBfloat16, {96, 1024}, 1);
  const auto checkpoint = SaveArray(array);
  RefusesLaunches twin;
  AddDeviceKernels(twin);
  DeviceLoader loader(twin, options_);
  DeviceReadRequest request{0, {0, 0}, {}};
  request.target.dtype = DType::kBfloat16;
  request.target.shape = {96, 1024};
  request.target.address =
      twin.Allocate(0, std::string(array.byte_count(), 'g'));
  const auto loaded = loader.Read(*checkpoint, {request}, {});
  ASSERT_TRUE(loaded.ok()) << loaded.status().ToString();
  EXPECT_TRUE(twin.Read(request.target.address, array.byte_count()) ==
              std::string(array.view().data, array.byte_count()));
  EXPECT_THAT(twin.violations(), ::testing::IsEmpty());
}

// A kernel that reports damage where nothing is damaged: the host's elements
// win.
TEST_F(DevicePlanesLoads, AKernelThatFindsDamageIsNotTheLastWord) {
  twin_.AddKernel("holdfast_expand_pieces", [](const auto&, auto) {});
  const auto checkpoint = SaveSixChunks();
  const std::vector<TargetBox> boxes = {WholeOn(0, *checkpoint)};
  const auto loaded = Load(*checkpoint, boxes);
  ASSERT_TRUE(loaded.ok()) << loaded.status().ToString();
  EXPECT_TRUE(AreRight(boxes));
  EXPECT_EQ(loaded->chunk_count, 6u);
}

}  // namespace
}  // namespace holdfast
