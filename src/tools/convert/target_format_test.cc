#include "tools/convert/target_format.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace holdfast {
namespace {

using ::testing::HasSubstr;

TEST(TargetFormat, TheNameSaysIt) {
  for (const char* name : {"m.safetensors", "/a/m.safetensors/",
                           "gs://b/m.safetensors", "M.SAFETENSORS"}) {
    const auto format = ChooseTargetFormat(name, std::nullopt, "torch");
    ASSERT_TRUE(format.ok()) << format.status().ToString();
    EXPECT_EQ(*format, Format::kSafetensors) << name;
  }
  EXPECT_EQ(ChooseTargetFormat("m.npz", std::nullopt, "orbax").value(),
            Format::kNpz);
  EXPECT_EQ(ChooseTargetFormat("m.npz", Format::kNpz, "orbax").value(),
            Format::kNpz);
}

TEST(TargetFormat, WithoutASuffixTheCallerOrTheSourceSaysIt) {
  const auto of = [](const char* name, std::optional<Format> asked,
                     const char* source) {
    return ChooseTargetFormat(name, asked, source).value();
  };
  EXPECT_EQ(of("7", std::nullopt, "dcp"), Format::kDcp);
  EXPECT_EQ(of("7", std::nullopt, "zarr3"), Format::kOrbax);
  EXPECT_EQ(of("7", std::nullopt, "torch"), Format::kOrbax);
  EXPECT_EQ(of("7", Format::kSafetensors, "dcp"), Format::kSafetensors);
  EXPECT_EQ(of("safetensors", Format::kOrbax, "dcp"), Format::kOrbax);
  EXPECT_EQ(of("run.v1.5", std::nullopt, "orbax"), Format::kOrbax);
  EXPECT_EQ(of("run.ckpt", std::nullopt, "orbax"), Format::kOrbax);
  EXPECT_EQ(of("run.ckpt", Format::kDcp, "torch"), Format::kDcp);
}

TEST(TargetFormat, RefusesANameThatSaysSomethingElse) {
  const std::pair<const char*, std::optional<Format>> rows[] = {
      {"m.safetensors", Format::kOrbax},
      {"m.safetensors", Format::kNpz},
      {"m.npz", Format::kSafetensors},
      {"m.npz/", Format::kDcp},
      {"m.pt", std::nullopt},
      {"m.pt", Format::kOrbax},
      {"m.pth", Format::kDcp},
      {"pytorch_model.bin", std::nullopt},
      {"m.gguf", Format::kOrbax},
      {"model.safetensors.index.json", Format::kSafetensors},
      {"m.ckpt", std::nullopt},
  };
  for (const auto& [name, asked] : rows) {
    const auto format = ChooseTargetFormat(name, asked, "torch");
    EXPECT_EQ(format.status().code(), StatusCode::kInvalidArgument) << name;
    EXPECT_THAT(std::string(format.status().message()), HasSubstr(name));
  }
}

TEST(TargetFormat, ADirectoryIsNotCalledAsAFile) {
  EXPECT_TRUE(CheckDirectoryName("view", Format::kSafetensors).ok());
  for (const char* name : {"v.safetensors", "v.npz", "v.pt"}) {
    EXPECT_EQ(CheckDirectoryName(name, Format::kSafetensors).code(),
              StatusCode::kInvalidArgument);
    EXPECT_EQ(CheckDirectoryName(name, Format::kOrbax).code(),
              StatusCode::kInvalidArgument);
  }
}

}  // namespace
}  // namespace holdfast
