#include "ground/tree/python_repr.h"

#include <gtest/gtest.h>

#include "ground/tree/key_path.h"
#include "ground/tree/python_printable.h"

namespace holdfast {
namespace {

std::string Repr(std::string_view text) {
  std::string out;
  AppendPythonRepr(out, text);
  return out;
}

TEST(PythonRepr, ChoosesQuotesAsPythonDoes) {
  EXPECT_EQ(Repr(""), "''");
  EXPECT_EQ(Repr("a"), "'a'");
  EXPECT_EQ(Repr("it's"), "\"it's\"");
  EXPECT_EQ(Repr("say \"x\""), "'say \"x\"'");
  EXPECT_EQ(Repr("'\""), "'\\'\"'");
}

TEST(PythonRepr, EscapesWhatIsNotPrintable) {
  EXPECT_EQ(Repr("a\tb\nc\rd\\e"), "'a\\tb\\nc\\rd\\\\e'");
  EXPECT_EQ(Repr(std::string_view("\0\x1F\x7F", 3)), "'\\x00\\x1f\\x7f'");
  EXPECT_EQ(Repr("\xC2\xA0\xC2\xAD"), "'\\xa0\\xad'");  // no-break, soft hyphen
  EXPECT_EQ(Repr("\xE2\x80\x8B"), "'\\u200b'");         // zero-width space
  EXPECT_EQ(Repr("\xEE\x80\x80"), "'\\ue000'");         // private use
  EXPECT_EQ(Repr("\xF0\x9F\xBF\xBF"), "'\\U0001ffff'");
  EXPECT_EQ(Repr("\xC3\xBC\xE2\x98\x83\xF0\x9D\x94\x98"),
            "'\xC3\xBC\xE2\x98\x83\xF0\x9D\x94\x98'");
}

TEST(PythonRepr, ShowsBytesThatAreNotUtf8) {
  EXPECT_EQ(Repr("a\xFF"), "'a\\xff'");
}

TEST(PythonPrintable, KnowsTheEdgesOfItsRanges) {
  EXPECT_FALSE(IsPythonPrintable(0x1F));
  EXPECT_TRUE(IsPythonPrintable(0x20));
  EXPECT_TRUE(IsPythonPrintable(0x7E));
  EXPECT_FALSE(IsPythonPrintable(0x7F));
  EXPECT_FALSE(IsPythonPrintable(0xA0));
  EXPECT_TRUE(IsPythonPrintable(0xA1));
  EXPECT_FALSE(IsPythonPrintable(0xD800));
  EXPECT_TRUE(IsPythonPrintable(0xE01EF));
  EXPECT_FALSE(IsPythonPrintable(0x10FFFF));
}

TEST(KeyPathRepr, IsATuple) {
  EXPECT_EQ(KeyPathRepr({}), "()");
  EXPECT_EQ(KeyPathRepr({{"x"}}), "('x',)");
  EXPECT_EQ(KeyPathRepr({{"a"}, {"0", KeyKind::kIndex}}), "('a', '0')");
}

}  // namespace
}  // namespace holdfast
