#include "stores/http/retry.h"

#include <gtest/gtest.h>

#include <ctime>
#include <random>
#include <string>

#include "stores/http/http_date.h"
#include "stores/http/in_flight_limit.h"
#include "stores/http/latency_book.h"

namespace holdfast {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

TEST(RetryTest, BackoffDoublesUpToItsMaximum) {
  const auto delay = [](int failed_count, double random) {
    return BackoffDelay(milliseconds(100), milliseconds(2000), failed_count,
                        random)
        .count();
  };
  EXPECT_EQ(delay(1, 0), 50);
  EXPECT_EQ(delay(1, 0.5), 75);
  EXPECT_NEAR(delay(1, 0.9999), 100, 1);
  EXPECT_EQ(delay(2, 0), 100);
  EXPECT_EQ(delay(3, 0), 200);
  EXPECT_EQ(delay(5, 0), 800);
  EXPECT_EQ(delay(6, 0), 1000);
  EXPECT_EQ(delay(1'000'000, 0), 1000);
  EXPECT_EQ(BackoffDelay(milliseconds(50), milliseconds(10), 3, 0).count(), 5);
}

TEST(RetryTest, RetryAfterIsSecondsOrADate) {
  EXPECT_EQ(ParseRetryAfter("0", 0), milliseconds(0));
  EXPECT_EQ(ParseRetryAfter("120", 0), milliseconds(120'000));
  EXPECT_EQ(ParseRetryAfter("99999999999999999999999", 0),
            milliseconds(1'000'000'000));
  const std::string date = "Sun, 06 Nov 1994 08:49:37 GMT";
  EXPECT_EQ(ParseRetryAfter(date, 784111777 - 5), milliseconds(5000));
  EXPECT_EQ(ParseRetryAfter(date, 784111777 + 5), milliseconds(0));
  for (const char* text : {"", " 1", "-1", "1.5", "soon", "1 s"}) {
    EXPECT_FALSE(ParseRetryAfter(text, 0).has_value()) << text;
  }
}

// strftime writes the same form in the C locale.
TEST(HttpDateTest, ReadsWhatTheCLibraryWrites) {
  std::mt19937_64 random(11);
  std::uniform_int_distribution<int64_t> seconds(0, 253402300799);
  for (int i = 0; i < 20'000; ++i) {
    const time_t time = i == 0 ? 0 : seconds(random);
    tm parts = {};
    gmtime_r(&time, &parts);
    char text[64];
    strftime(text, sizeof(text), "%a, %d %b %Y %H:%M:%S GMT", &parts);
    ASSERT_EQ(ParseHttpDate(text), time) << text;
  }
}

TEST(HttpDateTest, RefusesOthers) {
  for (const char* text :
       {"", "Sun, 06 Nov 1994 08:49:37 EST", "Sunday, 06-Nov-94 08:49:37 GMT",
        "Sun, 31 Feb 1994 08:49:37 GMT", "Sun, 29 Feb 1900 08:49:37 GMT",
        "Sun, 00 Nov 1994 08:49:37 GMT", "Sun, 06 Nov 1994 24:49:37 GMT",
        "Sun, 06 Nov 1994 08:60:37 GMT", "Sun, 06 Nov 1994 08:49:61 GMT",
        "Sun, 06 Nov -994 08:49:37 GMT", "Sun, 06 Nox 1994 08:49:37 GMT",
        "Sun, 06 Nov 1994 08:49:37 GMT ", "Sun, 06 Nov 1969 08:49:37 GMT"}) {
    EXPECT_FALSE(ParseHttpDate(text).has_value()) << text;
  }
}

TEST(IsoTimeTest, ReadsFractionsAndZones) {
  constexpr int64_t kJan2Ns = 1767323045LL * 1'000'000'000;
  EXPECT_EQ(ParseIsoTime("1970-01-01T00:00:00Z"), 0);
  EXPECT_EQ(ParseIsoTime("1970-01-02T00:00:00.5+01:00"), 82'800'500'000'000);
  EXPECT_EQ(ParseIsoTime("2000-02-29T12:00:00.123456789123Z"),
            951'825'600'123'456'789);
  EXPECT_EQ(ParseIsoTime("2026-01-02T03:04:05Z"), kJan2Ns);
  EXPECT_EQ(ParseIsoTime("2026-01-02 03:04:05"), kJan2Ns);
  EXPECT_EQ(ParseIsoTime("2026-01-02T04:34:05+01:30"), kJan2Ns);
  EXPECT_EQ(ParseIsoTime("2026-01-01T23:04:05-0400"), kJan2Ns);
}

TEST(IsoTimeTest, RefusesOthers) {
  for (const char* text :
       {"", "2026", "1970-01-01", "1970-13-01T00:00:00Z",
        "2026-02-29T00:00:00Z", "1970-01-01T24:00:00Z", "9999-01-01T00:00:00Z",
        "1900-01-02T03:04:05Z", "1970-01-01T00:00:0-Z", "2026-01-02T03:04:05X",
        "2026-01-02T03:04", "2026-01-02T03:04:05+xx",
        "2026-01-02T03:04:05+01:00Z", "2026-01-02T03:04:05+1:000"}) {
    EXPECT_EQ(ParseIsoTime(text), std::nullopt) << text;
  }
}

TEST(InFlightLimitTest, HalvesOnceARoundAndGrowsByOneARound) {
  InFlightLimit limit(16);
  EXPECT_EQ(limit.limit(), 16);
  limit.OnAnswer();
  EXPECT_EQ(limit.limit(), 16);
  const uint64_t first = limit.epoch();
  limit.OnThrottled(first);
  EXPECT_EQ(limit.limit(), 8);
  // A second complaint from the same round reports nothing new.
  limit.OnThrottled(first);
  EXPECT_EQ(limit.limit(), 8);
  for (int i = 0; i < 7; ++i) limit.OnAnswer();
  EXPECT_EQ(limit.limit(), 8);
  limit.OnAnswer();
  EXPECT_EQ(limit.limit(), 9);
  for (int i = 0; i < 10; ++i) limit.OnThrottled(limit.epoch());
  EXPECT_EQ(limit.limit(), 1);
  for (int i = 0; i < 1000; ++i) limit.OnAnswer();
  EXPECT_EQ(limit.limit(), 16);
}

TEST(LatencyBookTest, KnowsALaggardAmongItsKind) {
  LatencyBook book;
  EXPECT_FALSE(book.LagsAfter(1000).has_value());
  for (int i = 0; i < 7; ++i) book.Add(1000, microseconds(50'000));
  EXPECT_EQ(book.LagsAfter(1000), microseconds(200'000));
  book.Add(1000, microseconds(50'000));
  EXPECT_EQ(book.LagsAfter(1000), microseconds(150'000));
  EXPECT_EQ(book.LagsAfter(520), microseconds(150'000));
  // The lag for a size without records is far longer than all recorded times.
  EXPECT_EQ(book.LagsAfter(100'000), microseconds(200'000));
  // A single slow request among many does not change the lag, and old requests
  // are forgotten.
  book.Add(1000, microseconds(9'000'000));
  for (int i = 0; i < 11; ++i) book.Add(1000, microseconds(50'000));
  EXPECT_EQ(book.LagsAfter(1000), microseconds(150'000));
  for (int i = 0; i < 32; ++i) book.Add(1000, microseconds(10));
  EXPECT_EQ(book.LagsAfter(1000), microseconds(20'000));
  book.Add(0, microseconds(1));
  book.Add(~uint64_t{0}, microseconds(1));
}

}  // namespace
}  // namespace holdfast
