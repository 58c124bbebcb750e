// cat of a pickled object: prints a message, or the file that contains it.
#include <gtest/gtest.h>

#include "holdfast/tools/torch_file.h"
#include "tests/cli/fake_checkpoint.h"
#include "tests/cli/run_words.h"

namespace holdfast {
namespace {

std::string TorchFileOf(int64_t number) {
  return WriteTorchFile(PickleValue::Dict({{PickleValue::String("step"),
                                            PickleValue::Int(number)}}))
      .value();
}

TEST(CatObject, PrintsItsJsonOrItsFile) {
  testing::ClearWorld();
  testing::FakeCheckpoint checkpoint;
  checkpoint.leaves.push_back(
      testing::TextLeaf("state", ValueKind::kObject, TorchFileOf(7)));
  checkpoint.leaves.push_back(
      testing::TextLeaf("broken", ValueKind::kObject, "no torch file"));
  testing::PutCheckpoint("/c", std::move(checkpoint));
  EXPECT_EQ(testing::RunWords({"cat", "/c", "state"}).out, "{\"step\":7}\n");
  EXPECT_EQ(testing::RunWords({"cat", "--raw", "/c", "state"}).out,
            TorchFileOf(7));
  const auto json = testing::RunWords({"cat", "--json", "/c", "state"});
  EXPECT_NE(json.out.find("\"value\": {\"step\":7}"), std::string::npos)
      << json.out;
  const auto broken = testing::RunWords({"cat", "/c", "broken"});
  EXPECT_NE(broken.code, 0);
  EXPECT_NE(broken.err.find("broken"), std::string::npos) << broken.err;
}

TEST(Sidecar, IsReadUnlessToldOtherwise) {
  testing::ClearWorld();
  testing::PutCheckpoint("/c", {});
  testing::RunWords({"ls", "/c"});
  EXPECT_TRUE(testing::Calls().open.use_sidecar);
  testing::RunWords({"ls", "--no-sidecar", "/c"});
  EXPECT_FALSE(testing::Calls().open.use_sidecar);
}

}  // namespace
}  // namespace holdfast
