#include "formats/pickle/refused_parts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <string>

namespace holdfast::pickle {
namespace {

using testing::HasSubstr;

// Keeps the pickle, since a program's strings point into it.
Program Ran(const std::string& bytes) {
  static auto* const pickles = new std::deque<std::string>;
  auto program =
      RunPickle(pickles->emplace_back(bytes), {.keeps_refused = true});
  EXPECT_TRUE(program.ok()) << program.status().ToString();
  return program.ok() ? *std::move(program) : Program();
}

// Returns the value of a string key of the root, which is a dict.
NodeIndex Member(const Program& program, std::string_view name) {
  const auto& pairs = program.node(program.root).children;
  for (size_t i = 0; i + 1 < pairs.size(); i += 2) {
    if (program.node(pairs[i]).text == name) return pairs[i + 1];
  }
  ADD_FAILURE() << "no " << name;
  return 0;
}

TEST(RefusedParts, NothingIsRefused) {
  const Program program = Ran("(S'a'\nI1\nd.");
  const RefusedParts refused(program);
  EXPECT_TRUE(refused.Below(program.root).ok());
  EXPECT_TRUE(refused.Hidden().ok());
  EXPECT_TRUE(refused.Untold().empty());
}

TEST(RefusedParts, BelongToTheValuesThatHoldThem) {
  // {'a': 1, 'b': [os.system('x')], 'c': partial(...) with state}.
  const Program program =
      Ran("(S'a'\nI1\nS'b'\n(lp0\ncos\nsystem\n(S'x'\ntRaS'c'\n"
          "cfunctools\npartial\n(tR(dbd.");
  RefusedParts refused(program);
  EXPECT_TRUE(refused.Below(Member(program, "a")).ok());
  const Status b = refused.Below(Member(program, "b"));
  EXPECT_EQ(b.code(), StatusCode::kPermissionDenied);
  EXPECT_THAT(std::string(b.message()), HasSubstr("os.system"));
  EXPECT_THAT(std::string(refused.Below(Member(program, "c")).message()),
              HasSubstr("functools.partial"));
  EXPECT_FALSE(refused.Below(program.root).ok());
  EXPECT_TRUE(refused.Hidden().ok());
  refused.Tell(Member(program, "b"));
  ASSERT_EQ(refused.Untold().size(), 1u);
  EXPECT_THAT(std::string(refused.Untold()[0].message()),
              HasSubstr("functools.partial"));
  refused.Tell(program.root);
  EXPECT_TRUE(refused.Untold().empty());
}

// A list that holds itself and something refused.
TEST(RefusedParts, ValuesMayHoldThemselves) {
  const Program program = Ran("(lp0\ng0\nacos\nsystem\na.");
  RefusedParts refused(program);
  EXPECT_FALSE(refused.Below(program.root).ok());
  refused.Tell(program.root);
  EXPECT_TRUE(refused.Untold().empty());
}

TEST(RefusedParts, WhatIsThrownAwayIsHidden) {
  for (const char* bytes : {"cos\nsystem\n0N.", "cos\nsystem\n(S'x'\ntR0N.",
                            "(cos\nsystem\n1N.", "cos\nsystem\np0\n0N."}) {
    const Program program = Ran(bytes);
    EXPECT_EQ(RefusedParts(program).Hidden().code(),
              StatusCode::kPermissionDenied)
        << bytes;
  }
}

TEST(RefusedParts, EachReasonIsKeptOnce) {
  std::string bytes = "(";
  for (int i = 0; i < 1000; ++i) bytes += "cos\nsystem\n(tR";
  const Program program = Ran(bytes + "l.");
  EXPECT_EQ(program.refusals.size(), 1u);
  const Program named = Ran("c" + std::string(100000, 'a') + "\nb'\n.");
  ASSERT_EQ(named.refusals.size(), 1u);
  EXPECT_LT(named.refusals[0].message().size(), 400u);
}

TEST(RefusedParts, WithoutTheOptionTheWholeFails) {
  EXPECT_EQ(RunPickle("(lcos\nsystem\na.").status().code(),
            StatusCode::kPermissionDenied);
}

}  // namespace
}  // namespace holdfast::pickle
