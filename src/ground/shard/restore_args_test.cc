#include "holdfast/restore_args.h"

#include <gtest/gtest.h>

namespace holdfast {
namespace {

TEST(RestoreArgs, TheirCommonPartsAreFound) {
  ArrayRestoreArgs array;
  array.dtype = DType::kInt8;
  SingleReplicaArrayRestoreArgs single;
  single.strict = false;
  const AnyRestoreArgs any[] = {RestoreArgs{RestoreType::kInt, DType::kInt16},
                                array, single};
  EXPECT_EQ(RestoreDType(any[0]), DType::kInt16);
  EXPECT_EQ(RestoreDType(any[1]), DType::kInt8);
  EXPECT_EQ(RestoreDType(any[2]), std::nullopt);
  EXPECT_EQ(RestoreTypeOf(any[0]), RestoreType::kInt);
  EXPECT_EQ(RestoreTypeOf(any[2]), RestoreType::kJaxArray);
  EXPECT_EQ(AsArrayRestoreArgs(any[0]), nullptr);
  EXPECT_TRUE(AsArrayRestoreArgs(any[1])->strict);
  EXPECT_FALSE(AsArrayRestoreArgs(any[2])->strict);
}

TEST(RestoreArgs, TwoShapesMustBeOne) {
  ArrayRestoreArgs args;
  args.shape = Shape{2};
  EXPECT_TRUE(CheckRestoreArgs(args).ok());
  args.global_shape = Shape{2};
  EXPECT_TRUE(CheckRestoreArgs(args).ok());
  args.global_shape = Shape{3};
  EXPECT_EQ(CheckRestoreArgs(args).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(CheckRestoreArgs(args).message(),
            "If `shape` and `global_shape` are both provided, they must "
            "match.");
  EXPECT_TRUE(CheckRestoreArgs(RestoreArgs()).ok());
}

}  // namespace
}  // namespace holdfast
