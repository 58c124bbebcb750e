#include "formats/device/device_kernels.h"

#include <cstring>
#include <string>

#include "formats/codec/codec_test_util.h"
#include "formats/device/device_test_util.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace holdfast {
namespace {

using ::testing::HasSubstr;

TEST(DeviceKernelsTest, SaysWhichKernelAnImageLacks) {
  DeviceTwin twin;
  const auto kernels = DeviceKernels::Load(twin, 0, "");
  EXPECT_EQ(kernels.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(kernels.status().message()),
              HasSubstr("holdfast_expand_pieces"));
}

TEST(DeviceKernelsTest, ReportsTheLaunchThatFails) {
  const std::string bytes = NormalBfloat16s(5000, 1);
  DevicePlanesPlan plan(/*bytes_are_known=*/false);
  ASSERT_TRUE(plan.Add(
      MustEncode(*MustMake(BloscParams{"zstd", 1, 1, 0, 2, true}, 2), bytes), 0,
      bytes.size(), 0));
  DeviceTwin twin;
  AddDeviceKernels(twin);
  const auto kernels = DeviceKernels::Load(twin, 0, "").value();
  DevicePlanesMemory memory;
  memory.encoded_bytes = plan.encoded_bytes();
  memory.elements_bytes = plan.elements_bytes();
  for (const int call : {1, 2, 3}) {
    twin.FailCall(call, UnavailableError("as ordered"));
    const Status status = kernels->DecodePlanes(plan, memory, 0);
    EXPECT_EQ(status.code(), StatusCode::kUnavailable) << call;
  }
}

// Tables come from the host's own code. If they are wrong all the same, the
// kernels touch nothing beyond the buffers.
class WrongTables : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::string bytes = NormalBfloat16s(5000, 1) + '\x01';
    encoded_ =
        MustEncode(*MustMake(BloscParams{"zstd", 1, 1, 0, 2, true}, 2), bytes);
    ASSERT_TRUE(plan_.Add(encoded_, 0, bytes.size(), 0));
    ASSERT_EQ(plan_.frame_count(), 1);
    // A stored plane, a coded plane, and the rest of the last item.
    ASSERT_EQ(plan_.piece_count(), 3);
  }

  bool IsDecoded(const std::function<void(DevicePiece*)>& change_pieces,
                 const std::function<void(DeviceFrame&)>& change_frame) {
    (void)device_.Decode(plan_, encoded_, 0, [&](char* tables) {
      change_pieces(reinterpret_cast<DevicePiece*>(tables));
      change_frame(*reinterpret_cast<DeviceFrame*>(tables + plan_.frames_at()));
    });
    return plan_.IsDecoded(0, device_.results());
  }
  bool IsDecodedWithPieces(
      const std::function<void(DevicePiece*)>& change_pieces) {
    return IsDecoded(change_pieces, [](DeviceFrame&) {});
  }

  TestDevice device_;
  std::string encoded_;
  DevicePlanesPlan plan_{/*bytes_are_known=*/false};
};

TEST_F(WrongTables, ButRightOnesDecode) {
  EXPECT_TRUE(IsDecodedWithPieces([](DevicePiece*) {}));
}

TEST_F(WrongTables, PiecesBeyondTheEncodedBytes) {
  for (const uint64_t at : {encoded_.size(), encoded_.size() - 1, ~uint64_t{0},
                            uint64_t{1} << 63}) {
    EXPECT_FALSE(IsDecodedWithPieces(
        [&](DevicePiece* pieces) { pieces[0].encoded_at = at; }));
    EXPECT_FALSE(IsDecodedWithPieces([&](DevicePiece* pieces) {
      pieces[0].kind = kRunPiece;
      pieces[0].encoded_at = at == encoded_.size() - 1 ? at + 1 : at;
    }));
    EXPECT_FALSE(IsDecodedWithPieces(
        [&](DevicePiece* pieces) { pieces[1].stream_at[3] = at; }));
  }
  EXPECT_FALSE(IsDecodedWithPieces(
      [](DevicePiece* pieces) { pieces[1].stream_bits[2] = ~0u; }));
  EXPECT_FALSE(IsDecodedWithPieces(
      [](DevicePiece* pieces) { pieces[1].stream_at[0] = 0; }));
}

TEST_F(WrongTables, PiecesBeyondTheScratchMemory) {
  for (const uint64_t at : {plan_.scratch_bytes(), ~uint64_t{0}}) {
    for (int i = 0; i < 2; ++i) {
      EXPECT_FALSE(IsDecodedWithPieces(
          [&](DevicePiece* pieces) { pieces[i].scratch_at = at; }));
      EXPECT_FALSE(IsDecodedWithPieces([&](DevicePiece* pieces) {
        pieces[i].decoded_bytes = static_cast<uint32_t>(at) + 1;
      }));
    }
  }
}

TEST_F(WrongTables, FramesBeyondTheBuffers) {
  const auto nothing = [](DevicePiece*) {};
  EXPECT_FALSE(IsDecoded(nothing, [&](DeviceFrame& frame) {
    frame.scratch_at = plan_.scratch_bytes();
  }));
  EXPECT_FALSE(
      IsDecoded(nothing, [](DeviceFrame& frame) { frame.byte_count = ~0u; }));
  // The results do not cover where elements go; the kernel writes none.
  const std::string untouched(plan_.elements_bytes(), '\xcc');
  for (const uint64_t at : {uint64_t{1}, ~uint64_t{0}}) {
    const std::string elements =
        device_.Decode(plan_, encoded_, 0, [&](char* tables) {
          reinterpret_cast<DeviceFrame*>(tables + plan_.frames_at())
              ->elements_at = at;
        });
    EXPECT_EQ(elements, untouched);
  }
}

}  // namespace
}  // namespace holdfast
