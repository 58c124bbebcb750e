#include "formats/device/nvrtc.h"

#include <dlfcn.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "formats/device/device_kernels.h"
#include "formats/device/kernel_source.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "holdfast/device.h"

namespace holdfast {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

constexpr DeviceSource kEmptySource{"empty.cu", "", "none.h", ""};

// Returns the library of nvidia-cuda-nvrtc-cu12 in .venv, or the one that
// HOLDFAST_NVRTC names; empty without either.
std::string NvrtcPath() {
  if (const char* path = std::getenv("HOLDFAST_NVRTC")) return path;
  const std::filesystem::path venv =
      std::filesystem::path(HOLDFAST_SOURCE_DIR) / ".venv" / "lib";
  std::error_code error;
  for (const auto& python : std::filesystem::directory_iterator(venv, error)) {
    const std::filesystem::path library =
        python.path() / "site-packages/nvidia/cuda_nvrtc/lib/libnvrtc.so.12";
    if (std::filesystem::exists(library)) return library;
  }
  return "";
}

// Loads the file that the library opens when it compiles. The library would
// find it, but for the address sanitizer, whose dlopen does not look next to
// it.
void LoadBuiltins(const std::filesystem::path& library) {
  for (const auto& file :
       std::filesystem::directory_iterator(library.parent_path())) {
    if (file.path().filename().string().starts_with("libnvrtc-builtins.so")) {
      (void)dlopen(file.path().c_str(), RTLD_NOW);
    }
  }
}

class WithNvrtc : public ::testing::Test {
 protected:
  void SetUp() override {
    if (NvrtcPath().empty()) {
      GTEST_SKIP() << "no NVRTC at hand: install tests/interop/"
                      "requirements.txt into .venv, or set HOLDFAST_NVRTC";
    }
    LoadBuiltins(NvrtcPath());
    auto loaded = LoadNvrtc(NvrtcPath());
    ASSERT_TRUE(loaded.ok()) << loaded.status().ToString();
    nvrtc_ = *std::move(loaded);
  }

  std::unique_ptr<Nvrtc> nvrtc_;
};

TEST(Nvrtc, ALibraryThatIsMissingOrAnotherIsAFailedPrecondition) {
  const auto missing = LoadNvrtc("/nonexistent/libnvrtc.so.12");
  EXPECT_EQ(missing.status().code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(missing.status().message()),
              HasSubstr("so the host decodes"));
  const auto other = LoadNvrtc("libc.so.6");
  EXPECT_EQ(other.status().code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(other.status().message()),
              HasSubstr("libc.so.6 has no nvrtcCreateProgram"));
}

// The library has no cubins for compute_81 and compute_99, so it makes PTX for
// compute_80 and compute_90.
TEST_F(WithNvrtc, KernelsKeepNothingInLocalMemory) {
  for (const auto& [asked, made] :
       {std::pair("compute_81", "sm_80"), std::pair("compute_99", "sm_90")}) {
    const auto image = nvrtc_->Compile(KernelSource(), asked);
    ASSERT_TRUE(image.ok()) << image.status().ToString();
    EXPECT_THAT(*image, HasSubstr(std::string(".target ") + made));
    for (const char* name :
         {"expand_pieces", "check_frames", "join_planes", "sum_box"}) {
      EXPECT_THAT(*image,
                  HasSubstr(std::string(".entry holdfast_") + name + "("));
    }
    EXPECT_THAT(*image, Not(HasSubstr(".local")));
  }
}

TEST_F(WithNvrtc, KernelsCompileForTheirDevice) {
  for (const char* architecture : {"compute_80", "compute_90"}) {
    const auto image = nvrtc_->Compile(KernelSource(), architecture);
    ASSERT_TRUE(image.ok()) << image.status().ToString();
    EXPECT_THAT(*image, StartsWith("\x7f"
                                   "ELF"));
  }
}

TEST_F(WithNvrtc, SaysWhyATextDoesNotCompile) {
  DeviceSource source = kEmptySource;
  source.text = "__global__ void f() { int x = no_such_name; }";
  const auto image = nvrtc_->Compile(source, "compute_90");
  EXPECT_EQ(image.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(image.status().message()),
              HasSubstr("\"no_such_name\" is undefined"));
}

TEST_F(WithNvrtc, RefusesArchitecturesThatItDoesNotKnow) {
  EXPECT_EQ(nvrtc_->Compile(kEmptySource, "compute_10").status().code(),
            StatusCode::kFailedPrecondition);
  for (const char* architecture : {"sm_90", "compute_", "compute_9x", ""}) {
    EXPECT_EQ(nvrtc_->Compile(kEmptySource, architecture).status().code(),
              StatusCode::kInvalidArgument);
  }
}

TEST_F(WithNvrtc, ThePathThatWasSetIsLookedAtFirst) {
  SetNvrtcPath(NvrtcPath());
  const auto image = CompileDeviceKernels("compute_90");
  EXPECT_TRUE(image.ok()) << image.status().ToString();
}

}  // namespace
}  // namespace holdfast
