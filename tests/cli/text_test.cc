// The parts that output is made of: units, tables, JSON, progress.
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <sstream>

#include "cli/json_out.h"
#include "cli/progress_bar.h"
#include "cli/text_table.h"
#include "cli/units.h"

namespace holdfast::cli {
namespace {

TEST(HumanBytes, KeepsOneDecimal) {
  EXPECT_EQ(HumanBytes(0), "0 B");
  EXPECT_EQ(HumanBytes(1023), "1023 B");
  EXPECT_EQ(HumanBytes(1024), "1.0 KiB");
  EXPECT_EQ(HumanBytes(1536), "1.5 KiB");
  EXPECT_EQ(HumanBytes((1 << 20) - 1), "1.0 MiB");
  EXPECT_EQ(HumanBytes(UINT64_MAX), "16.0 EiB");
}

TEST(HumanSeconds, ChangesUnits) {
  EXPECT_EQ(HumanSeconds(0.421), "0.42 s");
  EXPECT_EQ(HumanSeconds(12.3), "12 s");
  EXPECT_EQ(HumanSeconds(59.7), "1 min 0 s");
  EXPECT_EQ(HumanSeconds(7800), "2 h 10 min");
  EXPECT_EQ(HumanSeconds(-1), "0.00 s");
}

TEST(IsoTime, IsUtcWithMilliseconds) {
  EXPECT_EQ(IsoTime(0), "1970-01-01T00:00:00.000Z");
  EXPECT_EQ(IsoTime(1795201191302735606), "2026-11-20T18:59:51.302Z");
  EXPECT_EQ(IsoTime(951782400000000000), "2000-02-29T00:00:00.000Z");
  EXPECT_EQ(IsoTime(-1), "1969-12-31T23:59:59.999Z");
}

TEST(ParseBytes, KnowsBinaryAndDecimalUnits) {
  EXPECT_EQ(*ParseBytes("1"), 1u);
  EXPECT_EQ(*ParseBytes("512M"), uint64_t{512} << 20);
  EXPECT_EQ(*ParseBytes("2GiB"), uint64_t{2} << 30);
  EXPECT_EQ(*ParseBytes("64KB"), 64000u);
  EXPECT_EQ(*ParseBytes("1k"), 1024u);
  for (const char* bad : {"", "M", "-1", "0", "1X", "1 M", "1.5G", "12MM",
                          "99999999999999999999", "18446744073709551615K"}) {
    EXPECT_EQ(ParseBytes(bad).status().code(), StatusCode::kInvalidArgument)
        << bad;
  }
}

TEST(PrintableText, DisarmsControlCharacters) {
  EXPECT_EQ(PrintableText("params.w"), "params.w");
  EXPECT_EQ(PrintableText("\x1b[2J\n"), "\\x1b[2J\\n");
  EXPECT_EQ(PrintableText("größe"), "größe");
  EXPECT_EQ(PrintableText("\xff"), "\\xff");
  EXPECT_EQ(PrintableText("\xc2\x9b"), "\\xc2\\x9b");  // C1 CSI
}

TEST(TextTable, AlignsByCodePoints) {
  TextTable table({{"NAME"}, {"SIZE", Align::kRight}, {"END"}});
  table.AddRow({"größe", "1", "x"});
  table.AddRow({"a", "100", ""});
  std::ostringstream out;
  table.Print({}, out);
  EXPECT_EQ(out.str(), "NAME   SIZE  END\ngröße     1  x\na       100\n");
}

TEST(TextTable, ShortensThenDropsTheLastThenLeavesTheLineLong) {
  TextTable table({{"NAME", Align::kLeft, Fit::kShorten},
                   {"SIZE", Align::kRight},
                   {"A", Align::kLeft, Fit::kDrop},
                   {"B", Align::kLeft, Fit::kDrop}});
  const std::string name = std::string(20, 'x') + "ü" + std::string(20, 'y');
  table.AddRow({name, "1234", "aaaa", "bbbb"});
  const auto printed = [&](size_t columns_max) {
    std::ostringstream out;
    table.Print({.with_titles = false, .columns_max = columns_max}, out);
    return out.str();
  };
  const std::string x16(16, 'x'), y16(16, 'y'), x15(15, 'x');
  EXPECT_EQ(printed(0), name + "  1234  aaaa  bbbb\n");
  EXPECT_EQ(printed(59), name + "  1234  aaaa  bbbb\n");
  EXPECT_EQ(printed(51), x16 + "…" + y16 + "  1234  aaaa  bbbb\n");
  EXPECT_EQ(printed(44), x15 + "…" + y16 + "  1234  aaaa\n");
  EXPECT_EQ(printed(38), x15 + "…" + y16 + "  1234\n");
  EXPECT_EQ(printed(10), "xxxxxxx…yyyyyyyy  1234\n");
}

TEST(ShortenedText, KeepsWholeCodePoints) {
  EXPECT_EQ(ShortenedText("größe", 5, true), "größe");
  EXPECT_EQ(ShortenedText("größe", 4, true), "g…ße");
  EXPECT_EQ(ShortenedText("größere", 6, false), "g...re");
  EXPECT_EQ(ShortenedText("abc", 1, true), "…");
}

TEST(ShortenedName, KeepsNumbersAndTheLastKeys) {
  const std::string name = "params.transformer.layer_11.attention.query.kernel";
  EXPECT_EQ(ShortenedName(name, 50, true), name);
  EXPECT_EQ(ShortenedName(name, 40, true),
            "p.t.layer_11.attention.query.kernel");
  EXPECT_EQ(ShortenedName(name, 30, true), "p.t.layer_11.a.query.kernel");
  EXPECT_EQ(ShortenedName(name, 20, true), "p.t.layer…ery.kernel");
  EXPECT_EQ(ShortenedName("größe.b.c.d", 7, true), "g.b.c.d");
}

TEST(HumanCount, KeepsOneDecimal) {
  EXPECT_EQ(HumanCount(9999), "9999");
  EXPECT_EQ(HumanCount(10'000), "10.0K");
  EXPECT_EQ(HumanCount(124'439'808), "124.4M");
  EXPECT_EQ(HumanCount(999'960'000), "1.0B");
  EXPECT_EQ(HumanCount(UINT64_MAX), "18446.7Q");
}

TEST(JsonWriter, ReadsBackWhateverTheText) {
  std::string all_bytes;
  for (int i = 0; i < 256; ++i) all_bytes += static_cast<char>(i);
  std::ostringstream out;
  JsonWriter json(out);
  json.BeginObject();
  json.Field("text", "a\"b\\c\n\t\x01 ü \xf0\x9f\x98\x80");
  json.Field("bytes", all_bytes);
  json.Field("nan", std::nan(""));
  json.Field("tenth", 0.1);
  json.Field("whole", 3.0);
  json.Field("largest", UINT64_MAX);
  json.ShapeField("shape", {2, 3});
  json.EmbeddedField("meta", R"({"a": [1]})");
  json.EmbeddedField("not_json", R"({"a": NaN})");
  json.EmbeddedField("none", "");
  json.EndObject();
  const auto parsed = nlohmann::json::parse(out.str());
  EXPECT_EQ(parsed["text"], "a\"b\\c\n\t\x01 ü \xf0\x9f\x98\x80");
  EXPECT_EQ(parsed["nan"], "NaN");
  EXPECT_EQ(parsed["tenth"], 0.1);
  EXPECT_TRUE(parsed["whole"].is_number_float());
  EXPECT_EQ(parsed["largest"], UINT64_MAX);
  EXPECT_EQ(parsed["shape"], nlohmann::json({2, 3}));
  EXPECT_EQ(parsed["meta"]["a"][0], 1);
  EXPECT_EQ(parsed["not_json"], R"({"a": NaN})");
  EXPECT_TRUE(parsed["none"].is_null());
  EXPECT_EQ(out.str().substr(0, 12), R"({"text": "a\)");
}

class FakeClock {
 public:
  std::function<double()> fn() {
    return [this] { return seconds; };
  }
  double seconds = 100;
};

TEST(ProgressBar, StaysSilentForTheFirstSecond) {
  FakeClock clock;
  std::ostringstream sink;
  {
    ProgressBar bar(sink, clock.fn(), {.label = "verify"});
    clock.seconds += 0.9;
    bar.Update(10, 100);
  }
  EXPECT_EQ(sink.str(), "");
}

TEST(ProgressBar, DrawsAtIntervalsAndErasesItself) {
  FakeClock clock;
  std::ostringstream sink;
  ProgressBar bar(sink, clock.fn(), {.label = "verify"});
  clock.seconds += 2;
  bar.Update(1 << 20, 4 << 20);
  const std::string first = sink.str();
  EXPECT_EQ(first.substr(0, 4), "\r\x1b[K");
  EXPECT_NE(first.find("25%"), std::string::npos) << first;
  EXPECT_NE(first.find("1.0 MiB / 4.0 MiB"), std::string::npos) << first;
  EXPECT_NE(first.find("512.0 KiB/s"), std::string::npos) << first;
  EXPECT_NE(first.find("ETA 6.00 s"), std::string::npos) << first;
  clock.seconds += 0.05;
  bar.Update(2 << 20, 4 << 20);
  EXPECT_EQ(sink.str(), first);
  clock.seconds += 0.1;
  bar.Update(2 << 20, 4 << 20);
  EXPECT_NE(sink.str(), first);
  const std::string before = sink.str();
  bar.Finish();
  bar.Finish();
  EXPECT_EQ(sink.str(), before + "\r\x1b[K");
}

TEST(ProgressLine, FitsTheTerminal) {
  for (const int columns : {1, 20, 60, 80, 200}) {
    for (const uint64_t done : {0, 50, 100, 500}) {
      const std::string line = ProgressLine("verify", done, 100, 3, columns);
      EXPECT_LE(line.size(), static_cast<size_t>(std::max(columns - 1, 1)));
    }
  }
  EXPECT_NE(ProgressLine("verify", 500, 100, 3, 80).find("100%"),
            std::string::npos);
  EXPECT_EQ(ProgressLine("verify", 1024, 0, 1, 80),
            "verify  1.0 KiB  1.0 KiB/s");
}

}  // namespace
}  // namespace holdfast::cli
