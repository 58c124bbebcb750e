#include "foreign/safetensors/weight_index.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace holdfast {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(MissingParts, NamesSayHowManyThereAre) {
  EXPECT_THAT(MissingParts({"model-00001-of-00003.safetensors",
                            "model-00003-of-00003.safetensors"}),
              ElementsAre("model-00002-of-00003.safetensors"));
  EXPECT_THAT(MissingParts({"model-00002-of-00002.safetensors"}),
              ElementsAre("model-00001-of-00002.safetensors"));
  EXPECT_THAT(MissingParts({"a-1-of-2.bin", "a-2-of-2.bin"}), IsEmpty());
  EXPECT_THAT(MissingParts({"config.json", "model.safetensors"}), IsEmpty());
}

TEST(MissingParts, NumbersAreWrittenInManyWays) {
  EXPECT_THAT(MissingParts({"00001-of-000163.safetensors"}, 1),
              ElementsAre("00002-of-000163.safetensors"));
  EXPECT_THAT(MissingParts({"model_01_of_02.bin"}),
              ElementsAre("model_02_of_02.bin"));
  EXPECT_THAT(MissingParts({"m-9-of-10.bin", "m-10-of-10.bin"}, 1),
              ElementsAre("m-1-of-10.bin"));
  // Numbers start at 0 if there is a 0.
  EXPECT_THAT(MissingParts({"w-00000-of-00003", "w-00002-of-00003"}),
              ElementsAre("w-00001-of-00003"));
  EXPECT_THAT(MissingParts({"model.fp16-00002-of-00002.safetensors",
                            "model-00001-of-00001.safetensors"}),
              ElementsAre("model.fp16-00001-of-00002.safetensors"));
}

TEST(MissingParts, ProcessesNeedNotHaveSomeOfEach) {
  EXPECT_THAT(MissingParts({"shard-00001-model-00001-of-00002.safetensors",
                            "shard-00002-model-00002-of-00002.safetensors"}),
              IsEmpty());
  EXPECT_THAT(MissingParts({"shard-00001-model-00001-of-00002.safetensors",
                            "shard-00002-model-00001-of-00002.safetensors"}),
              ElementsAre("shard-*-model-00002-of-00002.safetensors"));
}

TEST(MissingParts, ABoundedListOfWhatANameClaims) {
  const std::vector<std::string> names = {"m-1-of-999999999999.safetensors"};
  EXPECT_EQ(MissingParts(names, 5).size(), 5u);
  const Status status = CheckNoPartIsMissing(names);
  EXPECT_EQ(status.code(), StatusCode::kDataLoss);
  EXPECT_THAT(status.message(),
              HasSubstr("m-2-of-999999999999.safetensors, "
                        "m-3-of-999999999999.safetensors, "
                        "m-4-of-999999999999.safetensors and others are "
                        "missing"));
  EXPECT_THAT(MissingParts({"m-1-of-99999999999999999999.bin", "of", "-of-",
                            "1-of-", "-of-1", "a-of-b"}),
              IsEmpty());
}

TEST(TorchWeights, AreKnownByTheirNames) {
  EXPECT_THAT(TorchWeightsIn({"config.json", "optimizer.bin",
                              "pytorch_model.bin", "training_args.bin"}),
              ElementsAre("pytorch_model.bin"));
  EXPECT_THAT(
      TorchWeightsIn({"pytorch_model-00001-of-00002.bin",
                      "pytorch_model-00002-of-00002.bin", "training_args.bin"}),
      ElementsAre("pytorch_model-00001-of-00002.bin",
                  "pytorch_model-00002-of-00002.bin"));
  EXPECT_THAT(TorchWeightsIn({"scheduler.bin", "a.pt"}), IsEmpty());
}

}  // namespace
}  // namespace holdfast
