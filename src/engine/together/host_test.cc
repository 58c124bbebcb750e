#include "engine/together/host.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace holdfast {
namespace {

using testing::ElementsAre;

TEST(Host, AProcessSharesItsOwn) { EXPECT_EQ(HostKey(), HostKey()); }

TEST(Host, RanksOfOneKeyShare) {
  const auto by_rank =
      RanksByHost({"a", "b", "a", "c"}, {true, true, true, true});
  EXPECT_THAT(by_rank, ElementsAre(ElementsAre(0, 2), ElementsAre(1),
                                   ElementsAre(0, 2), ElementsAre(3)));
}

TEST(Host, WhereOneCannotNoneDoes) {
  const auto by_rank =
      RanksByHost({"a", "b", "a", "b"}, {true, true, true, false});
  EXPECT_THAT(by_rank, ElementsAre(ElementsAre(0, 2), ElementsAre(1),
                                   ElementsAre(0, 2), ElementsAre(3)));
}

}  // namespace
}  // namespace holdfast
