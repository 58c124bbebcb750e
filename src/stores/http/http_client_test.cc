#include "stores/http/http_client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <future>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "ground/record/watchdog.h"
#include "holdfast/version.h"
#include "stores/http/hedge_budget.h"
#include "twins/http_test_server.h"
#include "twins/thread_shortage.h"

namespace holdfast {
namespace {

using std::chrono::milliseconds;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

HttpOptions QuickOptions() {
  HttpOptions options;
  options.backoff_first = milliseconds(1);
  options.backoff_max = milliseconds(4);
  options.jitter_seed = 7;
  return options;
}

HttpRequest GetOf(std::string url) {
  HttpRequest request;
  request.url = std::move(url);
  return request;
}

std::string Repeated(std::string_view text, size_t byte_count) {
  std::string repeated;
  while (repeated.size() < byte_count) repeated += text;
  repeated.resize(byte_count);
  return repeated;
}

TEST(HttpClientTest, WithoutAThreadRequestsFailUntilThereIsOne) {
  if (!ThreadShortage::kIsPossible) GTEST_SKIP() << "clang's sanitizer";
  HttpTestServer server([](const TestRequest&) { return TestAnswer{}; });
  HttpClient client(QuickOptions());
  {
    ThreadShortage shortage(0);
    for (int i = 0; i < 2; ++i) {
      const auto answer = client.Send(GetOf(server.Url("/a")));
      EXPECT_EQ(answer.status().code(), StatusCode::kResourceExhausted);
      EXPECT_EQ(answer.status().message(), "HTTP: the system gives no thread");
    }
    EXPECT_EQ(shortage.refused_count(), 2);
  }
  const auto answer = client.Send(GetOf(server.Url("/a")));
  EXPECT_TRUE(answer.ok()) << answer.status().ToString();
}

TEST(HttpClientTest, GivesStatusHeadersAndBody) {
  HttpTestServer server([](const TestRequest&) {
    return TestAnswer{
        .status = 404, .headers = {{"X-Thing", "of it"}}, .body = "no such"};
  });
  HttpClient client(QuickOptions());
  HttpRequest request = GetOf(server.Url("/a/../b//c%20d?x=1&y"));
  request.headers = {{"X-Empty", ""}, {"X-Full", "a b"}};
  const auto answer = client.Send(request);
  ASSERT_TRUE(answer.ok()) << answer.status().ToString();
  EXPECT_EQ(answer->status, 404);
  EXPECT_EQ(answer->body.view(), "no such");
  EXPECT_EQ(FindHeader(answer->headers, "x-thing"), "of it");
  EXPECT_EQ(answer->attempt_count, 1);
  const TestRequest seen = server.requests().at(0);
  EXPECT_EQ(seen.method, "GET");
  EXPECT_EQ(seen.target, "/a/../b//c%20d?x=1&y");
  EXPECT_EQ(FindHeader(seen.headers, "X-Full"), "a b");
  EXPECT_EQ(FindHeader(seen.headers, "User-Agent"),
            "holdfast/" HOLDFAST_VERSION);
  EXPECT_FALSE(FindHeader(seen.headers, "Accept-Encoding").has_value());
  EXPECT_EQ(client.counters().received_bytes, 7u);
}

TEST(HttpClientTest, SendsBodiesOfManyPieces) {
  HttpTestServer server([](const TestRequest&) { return TestAnswer{}; });
  HttpClient client(QuickOptions());
  const std::string large = Repeated("large", 3'000'001);
  for (const std::string method : {"PUT", "POST", "DELETE"}) {
    HttpRequest request = GetOf(server.Url("/x"));
    request.method = method;
    request.body = {"", "one", "", large, "two", ""};
    ASSERT_TRUE(client.Send(request).ok());
    const TestRequest seen = server.requests().back();
    EXPECT_EQ(seen.method, method);
    EXPECT_EQ(seen.body, "one" + large + "two");
    EXPECT_FALSE(FindHeader(seen.headers, "Expect").has_value());
    EXPECT_FALSE(FindHeader(seen.headers, "Content-Type").has_value());
  }
  HttpRequest empty = GetOf(server.Url("/x"));
  empty.method = "PUT";
  ASSERT_TRUE(client.Send(empty).ok());
  EXPECT_EQ(FindHeader(server.requests().back().headers, "Content-Length"),
            "0");
  EXPECT_EQ(client.counters().sent_bytes, 3 * (large.size() + 6));
}

TEST(HttpClientTest, HeadHasNoBody) {
  HttpTestServer server(
      [](const TestRequest&) { return TestAnswer{.claimed_bytes = 1000}; });
  HttpClient client(QuickOptions());
  HttpRequest request = GetOf(server.Url("/x"));
  request.method = "HEAD";
  const auto answer = client.Send(request);
  ASSERT_TRUE(answer.ok());
  EXPECT_EQ(FindHeader(answer->headers, "Content-Length"), "1000");
  EXPECT_EQ(server.requests().at(0).method, "HEAD");
}

TEST(HttpClientTest, KeepsConnections) {
  HttpTestServer server([](const TestRequest& request) {
    return TestAnswer{.body = request.target};
  });
  HttpOptions options = QuickOptions();
  options.in_flight_max = 3;
  HttpClient client(options);
  std::vector<HttpRequest> requests;
  for (int i = 0; i < 20; ++i) {
    requests.push_back(GetOf(server.Url("/" + std::to_string(i))));
  }
  for (int round = 0; round < 3; ++round) {
    const auto answers = client.SendAll(requests);
    ASSERT_EQ(answers.size(), 20u);
    for (int i = 0; i < 20; ++i) {
      ASSERT_TRUE(answers[i].ok());
      EXPECT_EQ(answers[i]->body.view(), "/" + std::to_string(i));
    }
  }
  EXPECT_LE(server.connection_count(), 3);
  EXPECT_EQ(client.counters().connections,
            static_cast<uint64_t>(server.connection_count()));
  EXPECT_EQ(client.counters().requests, 60u);
  EXPECT_EQ(client.counters().attempts, 60u);
}

TEST(HttpClientTest, TriesAgainUntilItSucceeds) {
  for (const int status : {408, 429, 500, 502, 503, 504}) {
    HttpTestServer server([&](const TestRequest& request) {
      if (request.index < 3) return TestAnswer{.status = status, .body = "no"};
      return TestAnswer{.body = request.body};
    });
    HttpClient client(QuickOptions());
    HttpRequest request = GetOf(server.Url("/x"));
    request.method = "PUT";
    request.body = {"first ", "second"};
    const auto answer = client.Send(request);
    ASSERT_TRUE(answer.ok()) << answer.status().ToString();
    EXPECT_EQ(answer->status, 200);
    EXPECT_EQ(answer->body.view(), "first second");
    EXPECT_EQ(answer->attempt_count, 4);
    EXPECT_EQ(client.counters().retries, 3u);
    EXPECT_EQ(client.counters().throttled,
              status == 429 || status == 503 ? 3u : 0u);
  }
}

TEST(HttpClientTest, TheLastAnswerStaysWhenAttemptsAreUsedUp) {
  HttpTestServer server([](const TestRequest&) {
    return TestAnswer{.status = 503, .body = "SlowDown"};
  });
  HttpOptions options = QuickOptions();
  options.attempt_count_max = 3;
  HttpClient client(options);
  const auto answer = client.Send(GetOf(server.Url("/x")));
  ASSERT_TRUE(answer.ok());
  EXPECT_EQ(answer->status, 503);
  EXPECT_EQ(answer->body.view(), "SlowDown");
  EXPECT_EQ(answer->attempt_count, 3);
  EXPECT_EQ(server.requests().size(), 3u);
}

TEST(HttpClientTest, OtherStatusesAreAnswersAtOnce) {
  HttpTestServer server([](const TestRequest& request) {
    return TestAnswer{.status = std::stoi(request.target.substr(1))};
  });
  HttpClient client(QuickOptions());
  for (const int status : {200, 204, 400, 401, 403, 404, 409, 412, 416, 501}) {
    const auto answer =
        client.Send(GetOf(server.Url("/" + std::to_string(status))));
    ASSERT_TRUE(answer.ok());
    EXPECT_EQ(answer->status, status);
  }
  EXPECT_EQ(client.counters().retries, 0u);
}

TEST(HttpClientTest, LostConnectionsAreTriedAgainFromTheStart) {
  const std::string body = Repeated("0123456789", 200'000);
  HttpTestServer server([&](const TestRequest& request) {
    TestAnswer answer{.status = 206, .body = body};
    if (request.index == 0) answer.silent = true;
    if (request.index == 1) answer.silent = answer.reset = true;
    if (request.index == 2) answer.cut_after = 0;
    if (request.index == 3) answer.cut_after = 150'000;
    if (request.index == 4) {
      answer.cut_after = 150'000;
      answer.reset = true;
    }
    return answer;
  });
  HttpClient client(QuickOptions());
  std::string target(body.size(), '?');
  HttpRequest request = GetOf(server.Url("/x"));
  request.target = {target.data(), target.size()};
  const auto answer = client.Send(request);
  ASSERT_TRUE(answer.ok()) << answer.status().ToString();
  EXPECT_EQ(answer->attempt_count, 6);
  EXPECT_EQ(answer->target_bytes, body.size());
  EXPECT_EQ(target, body);
}

TEST(HttpClientTest, LostConnectionsAreUnavailableInTheEnd) {
  HttpTestServer server([&](const TestRequest&) {
    return TestAnswer{.body = "0123456789", .cut_after = 4};
  });
  HttpOptions options = QuickOptions();
  options.attempt_count_max = 2;
  HttpClient client(options);
  const auto answer = client.Send(GetOf(server.Url("/deep/x")));
  ASSERT_FALSE(answer.ok());
  EXPECT_EQ(answer.status().code(), StatusCode::kUnavailable);
  EXPECT_THAT(std::string(answer.status().message()),
              AllOf(HasSubstr("GET " + server.Url("/deep/x")),
                    HasSubstr("after 4 bytes"), HasSubstr("attempt 2")));
}

TEST(HttpClientTest, ABodyOfNoStatedLengthThatIsCutInChunksIsLost) {
  HttpTestServer server([&](const TestRequest& request) {
    if (request.index > 0) return TestAnswer{.body = "whole"};
    return TestAnswer{.headers = {{"Transfer-Encoding", "chunked"}},
                      .body = "5\r\nabcde\r\n",
                      .claimed_bytes = -1,
                      .close = true};
  });
  HttpClient client(QuickOptions());
  const auto answer = client.Send(GetOf(server.Url("/x")));
  ASSERT_TRUE(answer.ok());
  EXPECT_EQ(answer->body.view(), "whole");
}

TEST(HttpClientTest, AServerThatIsNotThereIsGivenUpEarly) {
  std::string url;
  {
    HttpTestServer server([](const TestRequest&) { return TestAnswer{}; });
    url = server.Url("/x?secret=1");
  }
  HttpClient client(QuickOptions());
  const auto answer = client.Send(GetOf(url));
  ASSERT_FALSE(answer.ok());
  EXPECT_EQ(answer.status().code(), StatusCode::kUnavailable);
  EXPECT_THAT(std::string(answer.status().message()),
              AllOf(HasSubstr("connect"), HasSubstr("attempt 4"),
                    Not(HasSubstr("secret"))));
}

// Returns a URL at which no server listens.
std::string RefusingUrl() {
  HttpTestServer server([](const TestRequest&) { return TestAnswer{}; });
  return server.Url("/x");
}

TEST(HttpClientTest, TheAnswersOfOneServerMakeNoOtherWorthWaitingFor) {
  HttpTestServer server([](const TestRequest&) { return TestAnswer{}; });
  HttpClient client(QuickOptions());
  ASSERT_TRUE(client.Send(GetOf(server.Url("/x"))).ok());
  const std::string url = RefusingUrl();
  const auto answer = client.Send(GetOf(url));
  ASSERT_FALSE(answer.ok());
  EXPECT_EQ(answer.status().code(), StatusCode::kUnavailable);
  EXPECT_THAT(std::string(answer.status().message()),
              AllOf(HasSubstr(url), HasSubstr("attempt 4")));
  EXPECT_EQ(client.counters().attempts, 5u);
}

TEST(HttpClientTest, AServerThatNeverAnswersIsGivenUpEarly) {
  for (const bool reset : {false, true}) {
    HttpTestServer server([&](const TestRequest&) {
      return TestAnswer{.reset = reset, .silent = true};
    });
    HttpClient client(QuickOptions());
    const std::string url = server.Url("/x");
    const auto answer = client.Send(GetOf(url));
    ASSERT_FALSE(answer.ok());
    EXPECT_EQ(answer.status().code(), StatusCode::kUnavailable);
    EXPECT_THAT(std::string(answer.status().message()),
                AllOf(HasSubstr(url), HasSubstr("attempt 4")));
    EXPECT_EQ(server.requests().size(), 4u);
  }
}

TEST(HttpClientTest, AProxyThatLeadsNowhereIsGivenUpEarly) {
  HttpTestServer proxy(
      [](const TestRequest&) { return TestAnswer{.status = 403}; });
  ASSERT_EQ(setenv("https_proxy", proxy.Url("").c_str(), 1), 0);
  HttpOptions options = QuickOptions();
  options.ca_bundle = "/etc/hostname";  // this file is never used
  HttpClient client(options);
  const auto answer = client.Send(GetOf("https://storage.example/x"));
  unsetenv("https_proxy");
  ASSERT_FALSE(answer.ok());
  EXPECT_EQ(answer.status().code(), StatusCode::kUnavailable);
  EXPECT_THAT(
      std::string(answer.status().message()),
      AllOf(HasSubstr("https://storage.example/x"), HasSubstr("attempt 4")));
  ASSERT_EQ(proxy.requests().size(), 4u);
  EXPECT_EQ(proxy.requests()[0].method, "CONNECT");
}

TEST(HttpClientTest, AServerThatAnsweredOnceIsWaitedFor) {
  HttpTestServer server([&](const TestRequest& request) {
    const bool answers = request.index == 0 || request.index == 8;
    return TestAnswer{.silent = !answers};
  });
  HttpClient client(QuickOptions());
  ASSERT_TRUE(client.Send(GetOf(server.Url("/x"))).ok());
  const auto answer = client.Send(GetOf(server.Url("/y")));
  ASSERT_TRUE(answer.ok()) << answer.status().ToString();
  EXPECT_EQ(answer->attempt_count, 8);
}

TEST(HttpClientTest, WhatMayNotRepeatIsSentOnceOnItsOwnConnection) {
  HttpTestServer server([&](const TestRequest& request) {
    if (request.target == "/lost") return TestAnswer{.silent = true};
    return TestAnswer{.status = request.target == "/429" ? 429 : 503};
  });
  HttpOptions options = QuickOptions();
  options.attempt_count_max = 3;
  HttpClient client(options);
  HttpRequest request = GetOf(server.Url("/503"));
  request.method = "POST";
  request.may_repeat = false;
  EXPECT_EQ(client.Send(request)->attempt_count, 1);
  request.url = server.Url("/lost");
  EXPECT_EQ(client.Send(request).status().code(), StatusCode::kUnavailable);
  EXPECT_EQ(server.requests().size(), 2u);
  request.url = server.Url("/429");
  EXPECT_EQ(client.Send(request)->attempt_count, 3);
}

TEST(HttpClientTest, AResentRequestOnADeadConnectionIsCounted) {
  HttpTestServer server([](const TestRequest& request) {
    return TestAnswer{.status = request.index < 2 ? 200 : 412,
                      .silent = request.index == 1};
  });
  HttpClient client(QuickOptions());
  HttpRequest request = GetOf(server.Url("/x"));
  for (const std::string method : {"GET", "PUT"}) {
    request.method = method;
    if (method == "PUT") request.body = {"body"};
    const auto answer = client.Send(request);
    ASSERT_TRUE(answer.ok());
    EXPECT_EQ(answer->status, method == "GET" ? 200 : 412);
    EXPECT_EQ(answer->attempt_count, method == "GET" ? 1 : 2);
  }
  ASSERT_EQ(server.requests().size(), 3u);
  EXPECT_EQ(server.requests().at(2).body, "body");
}

TEST(HttpClientTest, OnlyTheTargetStatusFillsTheTarget) {
  HttpTestServer server([](const TestRequest& request) {
    return TestAnswer{.status = std::stoi(request.target.substr(1)),
                      .body = "body"};
  });
  HttpClient client(QuickOptions());
  std::string target = "........";
  HttpRequest request = GetOf(server.Url("/206"));
  request.target = {target.data(), target.size()};
  auto answer = client.Send(request);
  ASSERT_TRUE(answer.ok());
  EXPECT_EQ(answer->target_bytes, 4u);
  EXPECT_EQ(answer->body.size(), 0u);
  EXPECT_EQ(target, "body....");

  target = "........";
  for (const int status : {200, 404}) {
    request.url = server.Url("/" + std::to_string(status));
    answer = client.Send(request);
    ASSERT_TRUE(answer.ok());
    EXPECT_EQ(answer->target_bytes, 0u);
    EXPECT_EQ(answer->body.view(), "body");
    EXPECT_EQ(target, "........");
  }
}

TEST(HttpClientTest, ALongerAnswerThanItsTargetIsDataLoss) {
  HttpTestServer server([](const TestRequest&) {
    return TestAnswer{.status = 206, .body = "12345"};
  });
  HttpClient client(QuickOptions());
  std::string target = "....!";
  HttpRequest request = GetOf(server.Url("/x"));
  request.target = {target.data(), 4};
  const auto answer = client.Send(request);
  EXPECT_EQ(answer.status().code(), StatusCode::kDataLoss);
  EXPECT_EQ(target.back(), '!');
  EXPECT_EQ(server.requests().size(), 1u);
}

TEST(HttpClientTest, BodiesAreBounded) {
  HttpTestServer server([](const TestRequest& request) {
    return TestAnswer{.status = std::stoi(request.target.substr(1)),
                      .body = Repeated("ab", 100'000)};
  });
  HttpClient client(QuickOptions());
  HttpRequest request = GetOf(server.Url("/200"));
  request.body_bytes_max = 1000;
  EXPECT_EQ(client.Send(request).status().code(), StatusCode::kDataLoss);
  request.url = server.Url("/404");
  EXPECT_EQ(client.Send(request)->body.view(), Repeated("ab", 1000));
  // At this URL, the server ignores ranges.
  request.url = server.Url("/200");
  std::string target(10, '.');
  request.target = {target.data(), target.size()};
  const auto answer = client.Send(request);
  ASSERT_TRUE(answer.ok());
  EXPECT_EQ(answer->status, 200);
  EXPECT_EQ(answer->body.size(), 1000u);
  EXPECT_EQ(target, "..........");
}

TEST(HttpClientTest, HeadersAreBounded) {
  HttpTestServer server([](const TestRequest&) {
    TestAnswer answer;
    for (int i = 0; i < 40; ++i) {
      answer.headers.emplace_back("X", std::string(10'000, 'x'));
    }
    return answer;
  });
  HttpClient client(QuickOptions());
  EXPECT_EQ(client.Send(GetOf(server.Url("/x"))).status().code(),
            StatusCode::kDataLoss);
}

TEST(HttpClientTest, CancelEndsWhatRunsAndWhatWaits) {
  HttpTestServer server(
      [](const TestRequest&) { return TestAnswer{.hang = true}; });
  HttpOptions options = QuickOptions();
  options.in_flight_max = 1;
  HttpClient client(options);
  CancelToken cancel;
  HttpRequest request = GetOf(server.Url("/x"));
  request.cancel = &cancel;
  std::thread canceller([&] {
    server.WaitForRequests(1);
    cancel.Cancel();
  });
  const auto answers = client.SendAll(std::vector{request, request});
  canceller.join();
  for (const auto& answer : answers) {
    EXPECT_EQ(answer.status().code(), StatusCode::kCancelled);
  }
  EXPECT_EQ(server.requests().size(), 1u);
}

TEST(HttpClientTest, DeadlineEndsARequest) {
  HttpTestServer server([](const TestRequest& request) {
    return TestAnswer{.status = 503, .hang = request.index > 0};
  });
  HttpClient client(QuickOptions());
  HttpRequest request = GetOf(server.Url("/x"));
  request.deadline = milliseconds(200);
  const auto answer = client.Send(request);
  EXPECT_EQ(answer.status().code(), StatusCode::kDeadlineExceeded);
  EXPECT_THAT(std::string(answer.status().message()),
              AllOf(HasSubstr("200 ms"), HasSubstr("answers 503")));
}

TEST(HttpClientTest, AStalledConnectionIsALostOne) {
  HttpTestServer server([](const TestRequest& request) {
    TestAnswer answer{.body = "0123456789"};
    if (request.index == 0) answer.hang = true;
    if (request.index == 1) {
      answer.hang = true;
      answer.cut_after = 5;
    }
    return answer;
  });
  HttpOptions options = QuickOptions();
  options.stall_deadline = milliseconds(100);
  HttpClient client(options);
  const auto answer = client.Send(GetOf(server.Url("/x")));
  ASSERT_TRUE(answer.ok()) << answer.status().ToString();
  EXPECT_EQ(answer->attempt_count, 3);
  EXPECT_EQ(answer->body.view(), "0123456789");
}

TEST(HttpClientTest, RetryAfterIsObeyedOrEndsTheRequest) {
  HttpTestServer server([](const TestRequest& request) {
    if (request.target == "/far") {
      return TestAnswer{.status = 503, .headers = {{"Retry-After", "3600"}}};
    }
    if (request.index == 0) {
      return TestAnswer{.status = 429, .headers = {{"Retry-After", "1"}}};
    }
    return TestAnswer{};
  });
  HttpClient client(QuickOptions());
  const auto begun = std::chrono::steady_clock::now();
  const auto answer = client.Send(GetOf(server.Url("/near")));
  EXPECT_EQ(answer->status, 200);
  EXPECT_GE(std::chrono::steady_clock::now() - begun, milliseconds(1000));
  // The server asks for a wait past the deadline, so the client does not wait.
  EXPECT_EQ(client.Send(GetOf(server.Url("/far")))->attempt_count, 1);
}

TEST(HttpClientTest, ThrottlingHalvesWhatIsInFlight) {
  HttpTestServer server([](const TestRequest& request) {
    return TestAnswer{.status = request.index < 24 ? 503 : 200};
  });
  std::string log;
  HttpOptions options = QuickOptions();
  options.in_flight_max = 16;
  options.log = [&](std::string_view line) { log += line; };
  HttpClient client(options);
  const auto answers =
      client.SendAll(std::vector(48, GetOf(server.Url("/x?secret=1"))));
  for (const auto& answer : answers) EXPECT_EQ(answer->status, 200);
  EXPECT_EQ(client.counters().throttled, 24u);
  EXPECT_EQ(client.counters().retries, 24u);
  EXPECT_THAT(
      log, AllOf(HasSubstr(server.Url("") + ": 1 requests sent again"),
                 HasSubstr("at most 8 in flight"), Not(HasSubstr("secret"))));
}

TEST(HttpClientTest, TheEnvironmentMayAskForTheLog) {
  HttpTestServer server([](const TestRequest& request) {
    return TestAnswer{.status = request.index == 0 ? 503 : 200};
  });
  setenv("HOLDFAST_LOG", "stderr", 1);
  HttpClient client(QuickOptions());
  unsetenv("HOLDFAST_LOG");
  ::testing::internal::CaptureStderr();
  EXPECT_TRUE(client.Send(GetOf(server.Url("/x?secret=1"))).ok());
  EXPECT_EQ(::testing::internal::GetCapturedStderr(),
            "holdfast: " + server.Url("") +
                ": 1 requests sent again (1 times the server asked to slow "
                "down), at most 32 in flight now\n");
}

TEST(HttpClientTest, PrepareIsAskedForEveryAttempt) {
  HttpTestServer server([](const TestRequest& request) {
    return TestAnswer{.status = request.index < 2 ? 500 : 200};
  });
  HttpClient client(QuickOptions());
  HttpRequest request = GetOf(server.Url("/x"));
  request.headers = {{"X-Kept", "kept"}};
  int count = 0;
  request.prepare = [&](HttpRequest& attempt) {
    EXPECT_EQ(attempt.headers.size(), 1u);
    attempt.headers.emplace_back("X-Attempt", std::to_string(++count));
    attempt.url += "?signed";
    return Status();
  };
  EXPECT_EQ(client.Send(request)->status, 200);
  const auto seen = server.requests();
  ASSERT_EQ(seen.size(), 3u);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(seen[i].target, "/x?signed");
    EXPECT_EQ(FindHeader(seen[i].headers, "X-Kept"), "kept");
    EXPECT_EQ(FindHeader(seen[i].headers, "X-Attempt"), std::to_string(i + 1));
  }
  request.prepare = [](HttpRequest&) { return PermissionDeniedError("none"); };
  EXPECT_EQ(client.Send(request).status().code(),
            StatusCode::kPermissionDenied);
  EXPECT_EQ(server.requests().size(), 3u);
}

// Records the latency of fast answers, then sends a request that hangs.
TEST(HttpClientTest, ASecondCopyOvertakesTheOneThatLags) {
  std::atomic<bool> lags = false;
  std::atomic<int> lagging_count = 0;
  HttpTestServer server([&](const TestRequest&) {
    TestAnswer answer{.status = 206, .body = "12345678"};
    if (lags && lagging_count++ == 0) {
      answer.hang = true;
      answer.cut_after = 2;
    }
    return answer;
  });
  HttpOptions options = QuickOptions();
  options.hedge = true;
  HttpClient client(options);
  std::string target(8, '.');
  HttpRequest request = GetOf(server.Url("/x"));
  request.target = {target.data(), target.size()};
  request.may_hedge = true;
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(client.Send(request).ok());
  const uint64_t hedges_before = client.counters().hedges;
  target = "........";
  lags = true;
  const auto answer = client.Send(request);
  ASSERT_TRUE(answer.ok()) << answer.status().ToString();
  EXPECT_EQ(answer->target_bytes, 8u);
  EXPECT_EQ(target, "12345678");
  EXPECT_EQ(client.counters().hedges, hedges_before + 1);
  // Without may_hedge, no second copy is sent.
  lagging_count = 0;
  request.may_hedge = false;
  request.deadline = milliseconds(300);
  EXPECT_EQ(client.Send(request).status().code(),
            StatusCode::kDeadlineExceeded);
}

TEST(HedgeBudget, IsTwoPercentAndAFewRequests) {
  HedgeBudget budget;
  EXPECT_TRUE(budget.MayHedge(100));
  uint64_t hedged_bytes = 0;
  for (int i = 0; i < 1000; ++i) {
    budget.OnAsked(100);
    if (!budget.MayHedge(100)) continue;
    budget.OnHedge(100);
    hedged_bytes += 100;
    budget.OnAnswered(100, 100);
  }
  EXPECT_EQ(hedged_bytes, 1000u * 100 / 50 + 4 * 100);
}

TEST(HedgeBudget, WhatHadStalledCostsNothing) {
  HedgeBudget budget;
  budget.OnAsked(1000);
  for (int i = 0; i < 100; ++i) {
    for (int hedge = 0; hedge < 4; ++hedge) {
      ASSERT_TRUE(budget.MayHedge(100));
      budget.OnHedge(100);
    }
    EXPECT_FALSE(budget.MayHedge(100));
    budget.OnAnswered(400, 0);
  }
}

// HOLDFAST_STALLS sets how many requests stall concurrently (12 by default).
TEST(HttpClientTest, EveryRequestThatLagsIsNamed) {
  const char* const asked = std::getenv("HOLDFAST_STALLS");
  const int stall_count =
      std::min(asked == nullptr ? 12 : std::atoi(asked), 64);
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<std::string> lines;
  SetSayLateForTest([&](const std::string& line) {
    const std::lock_guard lock(mutex);
    lines.push_back(line);
    changed.notify_all();
  });
  HttpTestServer server([&](const TestRequest& request) {
    TestAnswer answer{.status = 206, .body = "12345678"};
    answer.hang = request.target != "/quick";
    return answer;
  });
  HttpOptions options = QuickOptions();
  options.in_flight_max = stall_count + 1;  // one more for the quick request
  HttpClient client(options);
  std::vector<std::promise<void>> ended(static_cast<size_t>(stall_count));
  const auto begun = std::chrono::steady_clock::now();
  for (int i = 0; i < stall_count; ++i) {
    HttpRequest request = GetOf(server.Url("/x" + std::to_string(i) + "?a=1"));
    request.headers = {{"Range", "bytes=" + std::to_string(i) + "-"}};
    request.deadline = std::chrono::minutes(10);
    client.Start(request, [&ended, i](Result<HttpResponse>) {
      ended[static_cast<size_t>(i)].set_value();
    });
  }
  ASSERT_TRUE(client.Send(GetOf(server.Url("/quick"))).ok());
  {
    // Every stalled request is to be reported within five seconds.
    std::unique_lock lock(mutex);
    changed.wait_until(lock, begun + std::chrono::seconds(5), [&] {
      return lines.size() >= static_cast<size_t>(stall_count);
    });
  }
  SetSayLateForTest(nullptr);
  EXPECT_EQ(lines.size(), static_cast<size_t>(stall_count));
  for (int i = 0; i < stall_count; ++i) {
    const std::string number = std::to_string(i);
    EXPECT_THAT(lines,
                testing::Contains(testing::HasSubstr(
                    "/x" + number + " (bytes=" + number + "-) has taken ")));
  }
  EXPECT_THAT(lines, testing::Each(testing::HasSubstr("(attempt 1)")));
  server.Release();
  for (std::promise<void>& each : ended) each.get_future().wait();
}

TEST(HttpClientTest, AThirdCopyOvertakesTwoThatLag) {
  std::atomic<int> lagging_count = 2;
  std::atomic<bool> lags = false;
  HttpTestServer server([&](const TestRequest&) {
    TestAnswer answer{.status = 206, .body = "12345678"};
    answer.hang = lags && lagging_count-- > 0;
    return answer;
  });
  HttpClient client(QuickOptions());
  std::string target(8, '.');
  HttpRequest request = GetOf(server.Url("/x"));
  request.target = {target.data(), target.size()};
  request.may_hedge = true;
  for (int i = 0; i < 2000; ++i) ASSERT_TRUE(client.Send(request).ok());
  const HttpCounters before = client.counters();
  lags = true;
  ASSERT_TRUE(client.Send(request).ok());
  EXPECT_EQ(target, "12345678");
  EXPECT_EQ(client.counters().hedges, before.hedges + 2);
  EXPECT_EQ(client.counters().hedge_bytes, before.hedge_bytes);
}

// The hedges of four requests that stall forever use up the budget.
TEST(HttpClientTest, WithoutABudgetASilentOneIsReplaced) {
  std::atomic<bool> lags = false;
  std::atomic<int> last_count = 0;
  HttpTestServer server([&](const TestRequest& request) {
    TestAnswer answer{.status = 206, .body = "12345678"};
    answer.hang = lags && (request.target != "/last" || last_count++ == 0);
    return answer;
  });
  HttpClient client(QuickOptions());
  std::array<std::string, 5> targets;
  targets.fill(std::string(8, '.'));
  const auto request_of = [&](size_t i, const char* path) {
    HttpRequest request = GetOf(server.Url(path));
    request.target = {targets[i].data(), targets[i].size()};
    request.may_hedge = true;
    return request;
  };
  for (int i = 0; i < 10; ++i) {
    ASSERT_TRUE(client.Send(request_of(0, "/x")).ok());
  }
  lags = true;
  CancelToken cancel;
  std::vector<std::promise<void>> ended(4);
  for (size_t i = 0; i < 4; ++i) {
    HttpRequest request = request_of(i, "/x");
    request.cancel = &cancel;
    client.Start(request,
                 [&, i](Result<HttpResponse>) { ended[i].set_value(); });
  }
  // The first ten requests, then the four stalled ones and their hedges.
  server.WaitForRequests(10 + 8);
  const auto answer = client.Send(request_of(4, "/last"));
  ASSERT_TRUE(answer.ok()) << answer.status().ToString();
  EXPECT_EQ(targets[4], "12345678");
  EXPECT_EQ(answer->attempt_count, 1);
  EXPECT_EQ(client.counters().hedge_bytes, 0u);
  EXPECT_EQ(last_count, 2);
  cancel.Cancel();
  for (std::promise<void>& each : ended) each.get_future().wait();
}

TEST(HttpClientTest, FollowsRedirectsWithoutCredentialsToOthers) {
  HttpTestServer other([](const TestRequest&) {
    return TestAnswer{.status = 206, .body = "there"};
  });
  HttpTestServer server([&](const TestRequest& request) {
    TestAnswer answer{.status = 302};
    if (request.target == "/far") {
      answer.headers = {{"Location", other.Url("/x?signed=1")}};
    } else if (request.target == "/near/a") {
      answer.headers = {{"Location", "b?c"}};
    } else if (request.target == "/round") {
      answer.headers = {{"Location", "/round"}};
    } else {
      answer = {.status = 206, .body = "here"};
    }
    return answer;
  });
  HttpClient client(QuickOptions());
  std::string target(8, '.');
  HttpRequest request = GetOf(server.Url("/far"));
  request.headers = {{"Authorization", "secret"},
                     {"X-Amz-Security-Token", "secret"},
                     {"Cookie", "secret"},
                     {"Range", "bytes=0-4"}};
  request.target = {target.data(), target.size()};
  auto answer = client.Send(request);
  ASSERT_TRUE(answer.ok());
  EXPECT_EQ(answer->target_bytes, 5u);
  EXPECT_EQ(answer->attempt_count, 1);
  const TestRequest seen = other.requests().at(0);
  EXPECT_EQ(seen.target, "/x?signed=1");
  EXPECT_EQ(FindHeader(seen.headers, "Range"), "bytes=0-4");
  for (const auto& [name, value] : seen.headers) EXPECT_NE(value, "secret");

  request.url = server.Url("/near/a");
  answer = client.Send(request);
  EXPECT_EQ(target.substr(0, 4), "here");
  EXPECT_EQ(server.requests().back().target, "/near/b?c");
  EXPECT_EQ(FindHeader(server.requests().back().headers, "Authorization"),
            "secret");

  request.url = server.Url("/round");
  EXPECT_EQ(client.Send(request)->status, 302);
  request.url = server.Url("/far");
  request.method = "PUT";
  EXPECT_EQ(client.Send(request)->status, 302);
  request.method = "GET";
  request.prepare = [](HttpRequest&) { return Status(); };
  EXPECT_EQ(client.Send(request)->status, 302);
  EXPECT_EQ(other.requests().size(), 1u);
}

TEST(HttpClientTest, RefusesWhatIsNoRequest) {
  HttpClient client(QuickOptions());
  for (const char* url :
       {"", "x", "ftp://host/x", "http://", "http://user:secret@host/x",
        "http://host/a b", "http://host/x\r\nX: y", "s3://bucket/x",
        "http://host:0/", "http://host:99999/"}) {
    const auto answer = client.Send(GetOf(url));
    EXPECT_EQ(answer.status().code(), StatusCode::kInvalidArgument) << url;
    EXPECT_THAT(std::string(answer.status().message()),
                Not(HasSubstr("secret")));
  }
  for (const auto& header : HttpHeaders{{"X\r\nY", "secret"},
                                        {"X", "secret\r\nY: z"},
                                        {"", "secret"},
                                        {"X: Y", "secret"}}) {
    HttpRequest request = GetOf("http://127.0.0.1:1/");
    request.headers = {header};
    const auto answer = client.Send(request);
    EXPECT_EQ(answer.status().code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(answer.status().message()),
                Not(HasSubstr("secret")));
  }
}

TEST(HttpClientTest, OnlyHttpsNeedsCertificates) {
  HttpTestServer server([](const TestRequest&) { return TestAnswer{}; });
  HttpOptions options = QuickOptions();
  options.ca_bundle = "/nowhere/ca.pem";
  HttpClient client(options);
  EXPECT_TRUE(client.Send(GetOf(server.Url("/x"))).ok());
  const auto answer = client.Send(GetOf("HTTPS://127.0.0.1:1/x"));
  EXPECT_EQ(answer.status().code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(answer.status().message()),
              HasSubstr("/nowhere/ca.pem"));
}

TEST(HttpClientTest, TheEndOfAClientCancelsAndAnswersAll) {
  HttpTestServer server(
      [](const TestRequest&) { return TestAnswer{.hang = true}; });
  HttpOptions options = QuickOptions();
  options.in_flight_max = 2;
  std::atomic<int> cancelled_count = 0;
  {
    HttpClient client(options);
    for (int i = 0; i < 5; ++i) {
      client.Start(GetOf(server.Url("/x")), [&](Result<HttpResponse> answer) {
        cancelled_count += answer.status().code() == StatusCode::kCancelled;
      });
    }
    server.WaitForRequests(2);
  }
  EXPECT_EQ(cancelled_count, 5);
}

TEST(HttpClientTest, CallbacksMayStartRequests) {
  HttpTestServer server([](const TestRequest&) { return TestAnswer{}; });
  HttpClient client(QuickOptions());
  std::atomic<int> left_count = 50;
  std::atomic<bool> is_done = false;
  std::function<void(Result<HttpResponse>)> next =
      [&](const Result<HttpResponse>& answer) {
        EXPECT_TRUE(answer.ok());
        if (--left_count > 0) {
          client.Start(GetOf(server.Url("/x")), next);
        } else {
          is_done = true;
          is_done.notify_one();
        }
      };
  client.Start(GetOf(server.Url("/x")), next);
  is_done.wait(false);
  EXPECT_EQ(server.requests().size(), 50u);
}

TEST(HttpClientTest, ManyThreadsShareAClient) {
  HttpTestServer server([](const TestRequest& request) {
    return TestAnswer{.status = request.index % 7 == 0 ? 503 : 206,
                      .body = request.target};
  });
  HttpOptions options = QuickOptions();
  options.in_flight_max = 8;
  HttpClient client(options);
  std::vector<std::thread> threads;
  for (int t = 0; t < 6; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 20; ++i) {
        const std::string path =
            "/" + std::to_string(t) + "/" + std::to_string(i);
        std::string target(path.size(), '.');
        HttpRequest request = GetOf(server.Url(path));
        request.target = {target.data(), target.size()};
        const auto answer = client.Send(request);
        ASSERT_TRUE(answer.ok());
        EXPECT_EQ(target, path);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

#if !defined(__SANITIZE_THREAD__)
TEST(HttpClientTest, AChildBeginsAnew) {
  HttpTestServer server([](const TestRequest&) { return TestAnswer{}; });
  HttpClient client(QuickOptions());
  ASSERT_TRUE(client.Send(GetOf(server.Url("/parent"))).ok());
  const pid_t child = fork();
  if (child == 0) {
    const auto answer = client.Send(GetOf(server.Url("/child")));
    _exit(answer.ok() && answer->status == 200 ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(client.Send(GetOf(server.Url("/parent"))).ok());
  EXPECT_EQ(server.connection_count(), 2);
}
#endif

}  // namespace
}  // namespace holdfast
