#include "stores/storage/touched_directories.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace holdfast {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(TouchedDirectories, TakesParentsToo_DeepestFirst) {
  TouchedDirectories touched;
  touched.Touch("b/c/d");
  touched.Touch("a");
  touched.Touch("b/x");
  EXPECT_THAT(touched.Take(), ElementsAre("b/c/d", "b/c", "b/x", "a", "b", ""));
  EXPECT_THAT(touched.Take(), IsEmpty());
}

TEST(TouchedDirectories, PutBackIsTakenAgain) {
  TouchedDirectories touched;
  touched.Touch("b/c");
  std::vector<std::string> taken = touched.Take();
  taken.erase(taken.begin());  // b/c is durable, the rest failed
  touched.PutBack(taken);
  touched.Touch("a");
  EXPECT_THAT(touched.Take(), ElementsAre("a", "b", ""));
}

TEST(TouchedDirectories, ChainStopsAtParentsMadeByOthers) {
  TouchedDirectories touched;
  touched.Touch("a/b/c");
  EXPECT_THAT(touched.ChainOf("a/b/c"), ElementsAre("a/b/c"));
  EXPECT_EQ(touched.MakeInside("a", [] { return 0; }), 0);
  EXPECT_EQ(touched.MakeInside("", [] { return 17; }), 17);
  EXPECT_THAT(touched.ChainOf("a/b/c"), ElementsAre("a/b/c", "a"));
  EXPECT_THAT(touched.ChainOf("x"), ElementsAre("x"));
  (void)touched.Take();
  EXPECT_THAT(touched.ChainOf("a/b/c"), ElementsAre("a/b/c"));
}

TEST(TouchedDirectories, FailedMakeTouchesNothing) {
  TouchedDirectories touched;
  EXPECT_EQ(touched.MakeInside("a", [] { return 5; }), 5);
  EXPECT_THAT(touched.Take(), IsEmpty());
}

}  // namespace
}  // namespace holdfast
