// The output of verbs that read or change real checkpoints, in terminals of
// several widths.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "holdfast/checkpoint.h"
#include "holdfast/pending_save.h"
#include "tests/cli/golden_text.h"

namespace holdfast::testing {
namespace {

namespace fs = std::filesystem;

class RealTerminal : public ::testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    fs::remove_all(root_);
    fs::create_directories(root_ / "run");
    PutModel("a", {1, 2, 3, 4}, 7);
    PutModel("b", {1, 2, 3.5, NAN}, 8);
    for (const int64_t step : {100, 200, 300}) PutStep(step);
  }
  void TearDown() override { fs::remove_all(root_); }

  void PutModel(const std::string& name, std::vector<float> bias,
                int64_t step) {
    const auto array = [](const std::vector<float>& values, Shape shape) {
      return Array::FromBytes(DType::kFloat32, std::move(shape), values.data());
    };
    const std::vector<float> kernel(64, 0.125f);
    const Tree block = Tree::Dict(
        {{"attention",
          Tree::Dict({{"query_key_value_projection",
                       Tree::Dict({{"kernel", array(kernel, {8, 8})},
                                   {"bias", array(bias, {4})}})}})}});
    SaveOptions options;
    options.sync = false;
    const Tree tree = Tree::Dict(
        {{"params", Tree::Dict({{"transformer",
                                 Tree::Dict({{"decoder_layer_11", block}})}})},
         {"step", step}});
    ASSERT_TRUE(Save(root_ / name, tree, options).ok());
  }

  void PutStep(int64_t step) {
    PendingSaveOptions options;
    options.sync = false;
    options.now_ns = [=] { return step * 36'000'000'000'000; };
    auto pending =
        PendingSave::Begin(root_ / "run" / std::to_string(step), options);
    ASSERT_TRUE(pending.ok()) << pending.status().ToString();
    SaveOptions item;
    item.sync = false;
    const Tree state = Tree::Dict({{"epoch", step}});
    ASSERT_TRUE((*pending)->SaveItem("state", state, item).ok());
    const std::string metrics =
        R"({"loss": )" + std::to_string(300.0 / static_cast<double>(step)) +
        R"(, "validation_accuracy": 0.5})";
    ASSERT_TRUE((*pending)->WriteFile("metrics/metrics", metrics).ok());
    ASSERT_TRUE((*pending)->Commit({}).ok());
  }

  std::string Path(const std::string& name) const { return root_ / name; }

  // Each width has its own root, because tests may run concurrently.
  const fs::path root_ = fs::canonical(::testing::TempDir()) /
                         ("terminal_" + std::to_string(GetParam()));
};

TEST_P(RealTerminal, ShowsWhatItDid) {
  const std::string text =
      TerminalText({{"diff", Path("a"), Path("b")},
                    {"diff", Path("a"), Path("a")},
                    {"stats", Path("b")},
                    {"steps", Path("run")},
                    {"prune", Path("run"), "--keep-latest=1", "--keep-best=1",
                     "--metric=loss"}},
                   GetParam(), root_.string());
  CompareWithGolden("real_terminal_" + std::to_string(GetParam()), text);
  // Totals are not part of the table.
  ExpectFits(text, GetParam(), {"different: ", "3 tensors", "1 step"});
}

TEST_P(RealTerminal, FitsDiskUsage) {
  // The files' sizes depend on the length of the path.
  const Ran ran = RunInTerminal({"du", Path("run")}, GetParam());
  EXPECT_THAT(ran.out, testing::HasSubstr("state    manifest       2"));
  ExpectFits(ran.out, GetParam(), {});
}

INSTANTIATE_TEST_SUITE_P(Widths, RealTerminal, ::testing::Values(60, 80, 120));

}  // namespace
}  // namespace holdfast::testing
