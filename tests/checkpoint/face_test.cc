// Properties of every Checkpoint, whatever format it reads: leaves by name and
// by index, bounds, kinds, and three ways to read the same elements.
#include <gtest/gtest.h>

#include <cstring>

#include "checkpoint/test_trees.h"
#include "ground/tensor/box.h"
#include "ground/tensor/copy.h"
#include "holdfast/tools/convert.h"
#include "twins/scratch_directory.h"

namespace holdfast {
namespace {

class Face : public ::testing::TestWithParam<Format> {
 protected:
  void SetUp() override {
    SaveOptions save;
    save.sync = false;
    const Tree tree = Tree::Dict(
        {{"w", Tree(RandomArray(DType::kFloat32, {30, 17}, 1))},
         {"deep",
          Tree::Dict({{"b", Tree(RandomArray(DType::kInt16, {5}, 2))}})},
         {"text", Tree("words")}});
    std::string path = scratch_ / "saved";
    ASSERT_TRUE(Save(path, tree, save).ok());
    if (GetParam() != Format::kOrbax) {
      ConvertOptions convert;
      convert.format = GetParam();
      convert.sync = false;
      const bool is_npz = GetParam() == Format::kNpz;
      const std::string target = scratch_ / (is_npz ? "c.npz" : "c");
      const auto converted = Convert(path, target, convert);
      ASSERT_TRUE(converted.ok()) << converted.status().ToString();
      path = target;
    }
    auto opened = Open(path);
    ASSERT_TRUE(opened.ok()) << opened.status().ToString();
    checkpoint_ = *std::move(opened);
  }

  const Checkpoint& checkpoint() const { return *checkpoint_; }

  const ScratchDirectory scratch_;
  std::unique_ptr<Checkpoint> checkpoint_;
};

TEST_P(Face, NumbersAndNamesThatAreNoLeafs) {
  const size_t count = checkpoint().leaves().size();
  for (const size_t leaf : {count, count + 7, ~size_t{0}}) {
    EXPECT_EQ(checkpoint().Read(leaf).status().code(), StatusCode::kOutOfRange);
    EXPECT_EQ(checkpoint().ReadBox(leaf, {0}, {1}).status().code(),
              StatusCode::kOutOfRange);
    EXPECT_EQ(checkpoint().ReadText(leaf).status().code(),
              StatusCode::kOutOfRange);
    EXPECT_EQ(checkpoint().ReadInto({{leaf, {}, {}}}).status().code(),
              StatusCode::kOutOfRange);
  }
  for (const char* name : {"", "W", "deep", "deep.b.c"}) {
    EXPECT_EQ(checkpoint().Read(name).status().code(), StatusCode::kNotFound);
    EXPECT_EQ(checkpoint().ReadBox(name, {0}, {1}).status().code(),
              StatusCode::kNotFound);
    EXPECT_EQ(checkpoint().ReadText(name).status().code(),
              StatusCode::kNotFound);
  }
}

TEST_P(Face, BoxesThatAreNotInside) {
  struct Case {
    Shape origin, shape;
    StatusCode code;
  };
  constexpr int64_t kFar = INT64_MAX;
  for (const Case& c : {Case{{0, 0}, {31, 17}, StatusCode::kOutOfRange},
                        Case{{-1, 0}, {1, 1}, StatusCode::kOutOfRange},
                        Case{{29, 16}, {1, 2}, StatusCode::kOutOfRange},
                        Case{{kFar, 0}, {kFar, 1}, StatusCode::kOutOfRange},
                        Case{{0, 0}, {1, -1}, StatusCode::kOutOfRange},
                        Case{{0}, {1}, StatusCode::kInvalidArgument}}) {
    EXPECT_EQ(checkpoint().ReadBox("w", c.origin, c.shape).status().code(),
              c.code);
  }
  float element = 0;
  const ArrayView no_strides{
      DType::kFloat32, reinterpret_cast<char*>(&element), {1, 1}, {}};
  const size_t w = *checkpoint().Find("w");
  EXPECT_EQ(checkpoint().ReadInto({{w, {0, 0}, no_strides}}).status().code(),
            StatusCode::kInvalidArgument);
}

TEST_P(Face, KindsAreToldApart) {
  EXPECT_EQ(checkpoint().ReadText("w").status().code(),
            StatusCode::kInvalidArgument);
  const auto text = checkpoint().Find("text");
  ASSERT_TRUE(text.ok());
  EXPECT_EQ(checkpoint().ReadText("text").value(), "words");
  EXPECT_EQ(checkpoint().Read(*text).status().code(),
            StatusCode::kInvalidArgument);
}

TEST_P(Face, AllWaysGiveTheSameElements) {
  const Array want = RandomArray(DType::kFloat32, {30, 17}, 1);
  const size_t w = *checkpoint().Find("w");
  EXPECT_TRUE(Tree(*checkpoint().Read("w")) == Tree(want));
  EXPECT_TRUE(Tree(*checkpoint().Read(w)) == Tree(want));
  for (const Box& box : {Box{{0, 0}, {30, 17}}, Box{{3, 0}, {4, 17}},
                         Box{{7, 5}, {2, 3}}, Box{{29, 16}, {1, 1}}}) {
    Array part = *Array::Allocate(DType::kFloat32, box.shape);
    CopyStrided(Subview(want.view(), box), part.mutable_view());
    EXPECT_TRUE(Tree(*checkpoint().ReadBox("w", box.origin, box.shape)) ==
                Tree(part));
    Array into = *Array::Allocate(DType::kFloat32, box.shape);
    // The same box twice and an empty box, in one pass.
    Array again = *Array::Allocate(DType::kFloat64, box.shape);
    Array none = *Array::Allocate(DType::kFloat32, {0, 4});
    ASSERT_TRUE(checkpoint()
                    .ReadInto({{w, box.origin, into.mutable_view()},
                               {w, {2, 3}, none.mutable_view()},
                               {w, box.origin, again.mutable_view()}})
                    .ok());
    EXPECT_TRUE(Tree(into) == Tree(part));
    Array narrowed = *Array::Allocate(DType::kFloat32, box.shape);
    ConvertStrided(again.view(), narrowed.mutable_view());
    EXPECT_TRUE(Tree(narrowed) == Tree(part));
  }
}

INSTANTIATE_TEST_SUITE_P(EveryFormat, Face,
                         ::testing::Values(Format::kOrbax, Format::kOrbaxV1,
                                           Format::kSafetensors, Format::kNpz,
                                           Format::kDcp, Format::kTorchDist,
                                           Format::kMegatronZarr),
                         [](const auto& info) {
                           std::string name(FormatName(info.param));
                           std::erase(name, '-');
                           return name;
                         });

}  // namespace
}  // namespace holdfast
