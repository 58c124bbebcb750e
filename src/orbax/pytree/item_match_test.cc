// Structures that match, and Orbax's messages for structures that do not.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "orbax/pytree/pytree_test_util.h"
#include "twins/scratch_directory.h"

namespace holdfast {
namespace {

using testing::HasSubstr;

class ItemMatchTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(SaveTree(scratch_.path(), Stored()).ok());
  }

  static Tree Stored() {
    return Tree::Dict({{"empty", Tree::List()},
                       {"opt", Tree::Tuple({Tree(1), Tree(2)})},
                       {"w", Tree(Iota({3}))}});
  }

  Result<Tree> Restore(Tree item, bool partial_restore = false) {
    PyTreeRestoreArgs args = RestoreOf(std::move(item));
    args.partial_restore = partial_restore;
    return MakeHandler()->Restore(scratch_.path(), args);
  }

  std::string Refusal(Tree item, bool partial_restore = false) {
    const auto restored = Restore(std::move(item), partial_restore);
    EXPECT_EQ(restored.status().code(), StatusCode::kInvalidArgument);
    return std::string(restored.status().message());
  }

  const ScratchDirectory scratch_;
};

constexpr char kBegin[] =
    "User-provided restore item and on-disk value metadata tree structures do "
    "not match:\n";
constexpr char kEnd[] =
    "\nIf this mismatch is intentional, pass `partial_restore=True` to only "
    "restore parameters found in `item`.";

TEST_F(ItemMatchTest, TheItemsContainersAreMade) {
  const auto restored =
      Restore(Tree::NamedTuple("acme", "State",
                               {{"w", Tree(0)},
                                {"opt", Tree::Tuple({Tree(0), Tree(0)})},
                                {"empty", Tree::None()}}));
  ASSERT_TRUE(restored.ok()) << restored.status().ToString();
  EXPECT_EQ(*restored,
            Tree::NamedTuple("acme", "State",
                             {{"w", Tree(Iota({3}))},
                              {"opt", Tree::Tuple({Tree(1), Tree(2)})},
                              {"empty", Tree::None()}}));
}

TEST_F(ItemMatchTest, WithoutAnItemAsStored) {
  const auto restored = MakeHandler()->Restore(scratch_.path());
  ASSERT_TRUE(restored.ok());
  EXPECT_EQ(*restored, Tree::Dict({{"empty", Tree::List()},
                                   {"opt", Tree::List({Tree(1), Tree(2)})},
                                   {"w", Tree(Iota({3}))}}));
}

TEST_F(ItemMatchTest, APlaceholderIsLeftOutAndComesBack) {
  const auto restored =
      Restore(Tree::Dict({{"empty", Tree::List()},
                          {"new", Tree::Placeholder()},
                          {"opt", Tree::List({Tree::Placeholder(), Tree(0)})},
                          {"w", Tree::Placeholder()}}));
  ASSERT_TRUE(restored.ok()) << restored.status().ToString();
  EXPECT_EQ(*restored,
            Tree::Dict({{"empty", Tree::List()},
                        {"new", Tree::Placeholder()},
                        {"opt", Tree::List({Tree::Placeholder(), Tree(2)})},
                        {"w", Tree::Placeholder()}}));
}

TEST_F(ItemMatchTest, MissingAndUnexpectedKeysAreNamed) {
  const std::string text =
      Refusal(Tree::Dict({{"empty", Tree::List()},
                          {"opt", Tree::List({Tree(0), Tree(0)})},
                          {"v", Tree(0)}}));
  EXPECT_THAT(text, HasSubstr(std::string(kBegin) + "v:\n    - Source: "));
  EXPECT_THAT(text, HasSubstr("\n    - Target: MISSING\n\nw:\n    - Source: "
                              "MISSING\n    - Target: "));
  EXPECT_TRUE(text.ends_with(kEnd)) << text;
}

TEST_F(ItemMatchTest, LengthsAndKindsOfContainersAreCompared) {
  const auto item = [](Tree opt) {
    return Tree::Dict(
        {{"empty", Tree::List()}, {"opt", std::move(opt)}, {"w", Tree(0)}});
  };
  EXPECT_EQ(Refusal(item(Tree::List({Tree(0)}))),
            std::string(kBegin) +
                "opt:\n    - Source: (<class 'list'>, 1)\n    - Target: "
                "(<class 'list'>, 2)" +
                kEnd);
  EXPECT_EQ(Refusal(item(Tree::Dict({{"a", Tree(0)}}))),
            std::string(kBegin) +
                "opt:\n    - Source: <class 'dict'>\n    - Target: <class "
                "'list'>" +
                kEnd);
}

TEST_F(ItemMatchTest, APartialItemKeepsWhatIsNotStored) {
  const auto restored = Restore(
      Tree::Dict({{"extra", Tree::Dict({{"a", Tree(5)}})}, {"w", Tree(0)}}),
      /*partial_restore=*/true);
  ASSERT_TRUE(restored.ok()) << restored.status().ToString();
  EXPECT_EQ(*restored, Tree::Dict({{"extra", Tree::Dict({{"a", Tree(5)}})},
                                   {"w", Tree(Iota({3}))}}));
}

TEST_F(ItemMatchTest, APartialItemMustFitWhatItHas) {
  EXPECT_EQ(Refusal(Tree::Dict({{"opt", Tree::List({Tree(0)})}}), true),
            "Length mismatch at key path ('opt',): template has length 1, but "
            "structure has length 2");
  EXPECT_EQ(Refusal(Tree(0), true),
            "Type mismatch at key path (): template has type <class 'int'>, "
            "but structure has type <class 'dict'>.");
  EXPECT_EQ(Refusal(Tree::Dict({{"w", Tree::Dict({{"a", Tree(0)}})}}), true),
            "Type mismatch at key path ('w',): template has type <class "
            "'dict'>, but structure has type <class "
            "'orbax.checkpoint._src.metadata.value_metadata_entry."
            "ValueMetadataEntry'>.");
}

TEST_F(ItemMatchTest, ADirectoryMustBeThereAndAbsolute) {
  const auto missing = MakeHandler()->Restore(scratch_ / "nope");
  EXPECT_EQ(missing.status().code(), StatusCode::kNotFound);
  EXPECT_EQ(missing.status().message(),
            "Requested directory for restore does not exist at " +
                (scratch_ / "nope") + ".");
}

}  // namespace
}  // namespace holdfast
