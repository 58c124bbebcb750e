// Steps that are views of other steps of their root: a prune keeps the steps
// that a view refers to.
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "holdfast/checkpoint.h"
#include "holdfast/steps/steps.h"
#include "holdfast/tools/view.h"
#include "leaf_lines.h"
#include "test_trees.h"
#include "twins/scratch_directory.h"

namespace holdfast {
namespace {

namespace fs = std::filesystem;

Tree SomeTree() {
  return Tree::Dict({{"a", Tree(RandomArray(DType::kFloat32, {60, 100}, 1))},
                     {"c", Tree(RandomArray(DType::kInt64, {2000}, 3))}});
}

TEST(ViewSteps, PruningKeepsWhatAViewRefersTo) {
  const ScratchDirectory directory;
  const auto Path = [&](const std::string& name) {
    return directory.path() + "/" + name;
  };
  fs::create_directory(Path("run"));
  for (const char* step : {"1", "2", "3", "5"}) {
    ASSERT_TRUE(Save(Path("run/") + step, SomeTree(),
                     {.compression = Compression::kNone})
                    .ok());
  }
  for (const auto& [from, to] :
       std::vector<std::pair<std::string, std::string>>{{"1", "4"},
                                                        {"4", "6"}}) {
    ASSERT_TRUE(View(Path("run/" + from), Path("run/" + to)).ok());
  }
  const std::vector<std::string> want = LinesOf(Path("run/1"));
  const auto plan =
      PlanPrune(Path("run"), {.keep = {{"the latest 1", LatestN{1}}}});
  ASSERT_TRUE(plan.ok()) << plan.status().ToString();
  // Step 6 was made from step 4, but refers directly to the files of step 1.
  ASSERT_EQ(plan->rows.size(), 6u);
  EXPECT_EQ(plan->rows[0].kept_by, std::vector<std::string>{"the view 6"});
  EXPECT_TRUE(plan->rows[1].kept_by.empty());
  EXPECT_TRUE(plan->rows[3].kept_by.empty());
  ASSERT_TRUE(Prune(Path("run"), *plan).ok());
  EXPECT_EQ(LinesOf(Path("run/6")), want);
  // The same for a manager that removes steps.
  ASSERT_TRUE(DisposeOfSteps(Path("run"), {"1"}).ok());
  EXPECT_EQ(LinesOf(Path("run/6")), want);
  // A view that is not a step counts as well.
  ASSERT_TRUE(View(Path("run/1"), Path("run/shown")).ok());
  ASSERT_TRUE(DisposeOfSteps(Path("run"), {"1", "6"}).ok());
  EXPECT_FALSE(fs::exists(Path("run/6")));
  EXPECT_EQ(LinesOf(Path("run/shown")), want);
  fs::remove_all(Path("run/shown"));
  // A view in the trash counts too, because it may be restored.
  ASSERT_TRUE(DisposeOfSteps(Path("run"), {"1"}).ok());
  EXPECT_TRUE(fs::exists(Path("run/1")));
  ASSERT_TRUE(EmptyTrash(Path("run")).ok());
  ASSERT_TRUE(DisposeOfSteps(Path("run"), {"1"}).ok());
  EXPECT_FALSE(fs::exists(Path("run/1")));
}

}  // namespace
}  // namespace holdfast
