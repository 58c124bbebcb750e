// Tests client and server with each other, and each with misbehaving peers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "tiers/peers/peer_client.h"
#include "tiers/peers/peer_server.h"
#include "tiers/peers/raw_peer_test_util.h"

namespace holdfast {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr double kEnough = 60;  // seconds; no test takes that long
constexpr double kShort = 0.05;

Result<PeerAnswer> Echo(std::string_view request) {
  return PeerAnswer(Bytes(std::string(request)));
}

PeerServerOptions TestServerOptions() {
  return {.address = "127.0.0.1", .secret = kTestSecret};
}

std::unique_ptr<PeerServer> StartServer(
    PeerServer::Handler handler = Echo,
    const PeerServerOptions& options = TestServerOptions()) {
  auto server = PeerServer::Start(options, std::move(handler));
  EXPECT_TRUE(server.ok()) << server.status().ToString();
  return *std::move(server);
}

PeerClientOptions TestClientOptions() { return {.secret = kTestSecret}; }

PeerAddress At(uint16_t port) { return {"127.0.0.1", port, "rank 3"}; }

std::string Named(uint16_t port) {
  return "rank 3 (127.0.0.1:" + std::to_string(port) + "): ";
}

// Returns the result of a client whose peer does what the script says.
Status CallRaw(RawPeer::Script script, double timeout_seconds = kEnough,
               std::span<char> target = {}) {
  const RawPeer peer(std::move(script));
  PeerClientOptions options = TestClientOptions();
  options.answer_bytes_max = 1000;
  PeerClient client(options);
  const auto answer =
      client.Call(At(peer.port()), "ask", timeout_seconds, target);
  EXPECT_THAT(answer.status().message(), StartsWith(Named(peer.port())));
  return answer.status();
}

// Returns a peer that welcomes the client, reads one request, sends `text` and
// then nothing.
RawPeer::Script Says(std::string text) {
  return [text](PeerSocket& socket, int) {
    WelcomeClient(socket);
    ReceiveRequest(socket);
    SendText(socket, text);
    WaitForEnd(socket);
  };
}

PeerSocket ConnectRaw(uint16_t port) {
  auto socket = PeerSocket::Connect("127.0.0.1", port, LongWait());
  EXPECT_TRUE(socket.ok()) << socket.status().ToString();
  return *std::move(socket);
}

TEST(PeersTest, AnswersComeBackOfAnySize) {
  const auto server = StartServer();
  PeerClient client(TestClientOptions());
  for (const size_t byte_count : {0, 1, 1000, 300'000, 1 << 20}) {
    std::string request(byte_count, '\0');
    for (size_t i = 0; i < byte_count; ++i) {
      request[i] = static_cast<char>(i * 7 + i / 251);
    }
    const auto answer = client.Call(At(server->port()), request, kEnough);
    ASSERT_TRUE(answer.ok()) << answer.status().ToString();
    EXPECT_EQ(answer->view(), request);
    if (byte_count == 0) continue;
    std::string target(byte_count, 'x');
    const auto filled =
        client.Call(At(server->port()), request, kEnough, target);
    ASSERT_TRUE(filled.ok()) << filled.status().ToString();
    EXPECT_TRUE(filled->empty());
    EXPECT_EQ(target, request);
  }
}

TEST(PeersTest, FailuresOfTheHandlerKeepTheirCodeAndTheConnection) {
  PeerServerOptions options = TestServerOptions();
  options.connection_count_max = 1;
  const auto server = StartServer(
      [](std::string_view request) {
        if (request == "long") return NotFoundError(std::string(100'000, 'm'));
        if (request == "memory") throw std::bad_alloc();
        return DataLossError("block 7: damaged");
      },
      options);
  PeerClient client(TestClientOptions());
  std::string target(4, 'x');
  const auto answer = client.Call(At(server->port()), "ask", kEnough, target);
  EXPECT_EQ(answer.status().code(), StatusCode::kDataLoss);
  EXPECT_EQ(answer.status().message(),
            Named(server->port()) + "block 7: damaged");
  EXPECT_EQ(target, "xxxx");
  const auto cut = client.Call(At(server->port()), "long", kEnough);
  EXPECT_EQ(cut.status().code(), StatusCode::kNotFound);
  EXPECT_EQ(cut.status().message().size(),
            Named(server->port()).size() + kPeerMessageBytesMax);
  EXPECT_EQ(client.Call(At(server->port()), "memory", kEnough).status().code(),
            StatusCode::kResourceExhausted);
}

TEST(PeersTest, ManyThreadsShareFewConnections) {
  PeerServerOptions options = TestServerOptions();
  options.connection_count_max = 2;  // a third would be refused
  const auto server = StartServer(Echo, options);
  PeerClientOptions client_options = TestClientOptions();
  client_options.connections_per_peer_max = 2;
  PeerClient client(client_options);
  std::atomic<int> good_count = 0;
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 8; ++t) {
      threads.emplace_back([&, t] {
        for (int i = 0; i < 100; ++i) {
          const std::string request =
              std::string(1 + 37 * i, 'r') + std::to_string(t);
          const auto answer = client.Call(At(server->port()), request, kEnough);
          if (answer.ok() && answer->view() == request) ++good_count;
        }
      });
    }
  }
  EXPECT_EQ(good_count, 800);
}

TEST(PeersTest, WhoHasAnotherSecretIsRefused) {
  std::atomic<int> call_count = 0;
  const auto server = StartServer([&](std::string_view) {
    ++call_count;
    return PeerAnswer();
  });
  PeerClient client({.secret = "another"});
  const Status status =
      client.Call(At(server->port()), "ask", kEnough).status();
  EXPECT_EQ(status.code(), StatusCode::kPermissionDenied);
  EXPECT_THAT(status.message(), StartsWith(Named(server->port())));
  // The server does not trust a client that skips this check, either.
  PeerSocket raw = ConnectRaw(server->port());
  JoinServer(raw, "another");
  SendText(raw, FrameText(PeerFrameKind::kRequest, "ask"));
  EXPECT_EQ(ReceiveText(raw, 1), "");
  EXPECT_EQ(call_count, 0);
}

TEST(PeersTest, NobodyThere) {
  uint16_t port = 0;
  {
    port = RawPeer([](PeerSocket&, int) {}).port();
  }
  PeerClient client(TestClientOptions());
  const Status status = client.Call(At(port), "ask", kEnough).status();
  EXPECT_EQ(status.code(), StatusCode::kUnavailable);
  EXPECT_EQ(status.message(), Named(port) + "connect: Connection refused");
}

TEST(PeersTest, SilentPeersCostTheTimeoutAndNoMore) {
  const auto waits = [](PeerSocket& socket, int) { WaitForEnd(socket); };
  EXPECT_EQ(CallRaw(waits, kShort).code(), StatusCode::kDeadlineExceeded);
  EXPECT_EQ(CallRaw(Says(""), kShort).code(), StatusCode::kDeadlineExceeded);
  const std::string answer = FrameText(PeerFrameKind::kAnswer, "answer");
  for (const size_t count : {size_t{1}, kPeerHeadBytes, answer.size() - 1}) {
    EXPECT_EQ(CallRaw(Says(answer.substr(0, count)), kShort).code(),
              StatusCode::kDeadlineExceeded);
  }
}

TEST(PeersTest, AConnectionThatIsNeverMadeCostsItsOwnTime) {
  const RawPeer peer([](PeerSocket& socket, int) { WaitForEnd(socket); });
  PeerClientOptions options = TestClientOptions();
  options.connect_seconds_max = kShort;
  PeerClient client(options);
  EXPECT_EQ(client.Call(At(peer.port()), "ask", 1e9).status().code(),
            StatusCode::kDeadlineExceeded);
}

TEST(PeersTest, PeersThatEndTheConnection) {
  const auto ends = [](std::string text) {
    return [text](PeerSocket& socket, int) {
      WelcomeClient(socket);
      ReceiveRequest(socket);
      SendText(socket, text);
    };
  };
  const std::string answer = FrameText(PeerFrameKind::kAnswer, "answer");
  for (const size_t count :
       {size_t{0}, size_t{1}, kPeerHeadBytes, answer.size() - 1}) {
    EXPECT_EQ(CallRaw(ends(answer.substr(0, count))).code(),
              StatusCode::kUnavailable);
  }
  EXPECT_EQ(CallRaw([](PeerSocket&, int) {}).code(), StatusCode::kUnavailable);
}

TEST(PeersTest, AnswersThatAreNone) {
  const auto greets = [](std::string text) {
    return [text](PeerSocket& socket, int) {
      ReceiveText(socket, kPeerHelloBytes);
      SendText(socket, text);
      WaitForEnd(socket);
    };
  };
  const Status web = CallRaw(
      greets("HTTP/1.1 400 Bad Request\r\n\r\n" + std::string(99, ' ')));
  EXPECT_EQ(web.code(), StatusCode::kDataLoss);
  std::string newer = EncodePeerHello(std::string(kPeerNonceBytes, 'n'));
  newer[6] = kPeerVersion + 1;
  EXPECT_EQ(CallRaw(greets(newer + std::string(99, ' '))).code(),
            StatusCode::kFailedPrecondition);

  EXPECT_EQ(CallRaw(Says(std::string(99, 'g'))).code(), StatusCode::kDataLoss);
  std::string changed = FrameText(PeerFrameKind::kAnswer, "answer");
  changed.back() ^= 1;
  EXPECT_THAT(CallRaw(Says(changed)).message(), HasSubstr("another checksum"));
  EXPECT_EQ(CallRaw(Says(changed)).code(), StatusCode::kDataLoss);
  // No memory is allocated for a huge size.
  const std::string huge = EncodePeerHead(
      {.kind = PeerFrameKind::kAnswer, .payload_bytes = ~uint64_t{0}});
  EXPECT_EQ(CallRaw(Says(huge)).code(), StatusCode::kResourceExhausted);
  std::array<char, 5> target;
  const Status other = CallRaw(
      Says(FrameText(PeerFrameKind::kAnswer, "answer")), kEnough, target);
  EXPECT_EQ(other.code(), StatusCode::kDataLoss);
  EXPECT_THAT(other.message(), HasSubstr("got 6 bytes, want 5"));
}

// Returns a peer whose first connection answers its first request normally and
// its second with `second`. Other connections always answer normally.
RawPeer::Script Dies(std::string second, std::atomic<int>& connection_count) {
  return [second, &connection_count](PeerSocket& socket, int connection) {
    ++connection_count;
    WelcomeClient(socket);
    for (int i = 0; !ReceiveRequest(socket).empty(); ++i) {
      if (connection == 0 && i == 1) return SendText(socket, second);
      SendText(socket, FrameText(PeerFrameKind::kAnswer, "answer"));
    }
  };
}

TEST(PeersTest, AKeptConnectionThatIsDeadIsReplacedOnce) {
  std::atomic<int> connection_count = 0;
  const RawPeer peer(Dies("", connection_count));
  PeerClient client(TestClientOptions());
  for (int i = 0; i < 3; ++i) {
    const auto answer = client.Call(At(peer.port()), "ask", kEnough);
    ASSERT_TRUE(answer.ok()) << answer.status().ToString();
    EXPECT_EQ(answer->view(), "answer");
  }
  EXPECT_EQ(connection_count, 2);
}

TEST(PeersTest, WhereAnAnswerHasBegunNothingIsSentAgain) {
  std::atomic<int> connection_count = 0;
  const RawPeer peer(Dies("a", connection_count));
  PeerClient client(TestClientOptions());
  ASSERT_TRUE(client.Call(At(peer.port()), "ask", kEnough).ok());
  EXPECT_EQ(client.Call(At(peer.port()), "ask", kEnough).status().code(),
            StatusCode::kUnavailable);
  EXPECT_EQ(connection_count, 1);
}

TEST(PeersTest, AServerThatWasStartedAgainIsFound) {
  auto server = StartServer();
  PeerServerOptions options = TestServerOptions();
  options.port = server->port();
  PeerClient client(TestClientOptions());
  ASSERT_TRUE(client.Call(At(options.port), "ask", kEnough).ok());
  server.reset();
  EXPECT_EQ(client.Call(At(options.port), "ask", kEnough).status().code(),
            StatusCode::kUnavailable);
  server = StartServer(Echo, options);
  EXPECT_TRUE(client.Call(At(options.port), "ask", kEnough).ok());
}

TEST(PeersTest, ACallIsCancelledWhileItWaits) {
  std::promise<void> released;
  CancelToken cancel;
  const auto server = StartServer([&](std::string_view) -> Result<PeerAnswer> {
    cancel.Cancel();
    released.get_future().wait();
    return PeerAnswer();
  });
  PeerClient client(TestClientOptions());
  const auto answer =
      client.Call(At(server->port()), "ask", kEnough, {}, &cancel);
  EXPECT_EQ(answer.status().code(), StatusCode::kCancelled);
  released.set_value();
}

TEST(PeersTest, StuckClientsHoldUpNobody) {
  PeerServerOptions options = TestServerOptions();
  options.threads = 1;
  const auto server = StartServer(
      [](std::string_view request) -> Result<PeerAnswer> {
        if (request == "much") {
          return PeerAnswer(Bytes(std::string(64 << 20, 'm')));
        }
        return Echo(request);
      },
      options);
  PeerSocket silent = ConnectRaw(server->port());
  PeerSocket half = ConnectRaw(server->port());
  SendText(half, "hfpe");
  PeerSocket in_request = ConnectRaw(server->port());
  JoinServer(in_request, kTestSecret);
  SendText(in_request, FrameText(PeerFrameKind::kRequest, "cut").substr(0, 22));
  PeerSocket slow = ConnectRaw(server->port());
  JoinServer(slow, kTestSecret);
  SendText(slow, FrameText(PeerFrameKind::kRequest, "much"));
  EXPECT_EQ(ReceiveText(slow, 1), "a");
  PeerClient client(TestClientOptions());
  const auto answer = client.Call(At(server->port()), "ask", kEnough);
  ASSERT_TRUE(answer.ok()) << answer.status().ToString();
}

TEST(PeersTest, StrangersTakeFewConnectionsAndNobodyElses) {
  PeerServerOptions options = TestServerOptions();
  options.stranger_count_max = 4;
  options.stranger_seconds_min = 0;
  const auto server = StartServer(Echo, options);
  PeerClient early(TestClientOptions());
  ASSERT_TRUE(early.Call(At(server->port()), "ask", kEnough).ok());
  std::vector<PeerSocket> strangers;
  for (int i = 0; i < 40; ++i) strangers.push_back(ConnectRaw(server->port()));
  // The last four strangers may stay; those before them are disconnected.
  for (int i = 0; i < 36; ++i) WaitForEnd(strangers[i]);
  PeerClient late(TestClientOptions());
  for (PeerClient* const client : {&early, &late}) {
    const auto answer = client->Call(At(server->port()), "ask", kEnough);
    EXPECT_TRUE(answer.ok()) << answer.status().ToString();
  }
}

TEST(PeersTest, TheLastDescriptorsAreLeftToTheProgram) {
  const auto server = StartServer();
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit few{.rlim_cur = 256, .rlim_max = before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
  std::vector<int> taken;
  do {
    taken.push_back(::dup(STDERR_FILENO));
  } while (taken.back() >= 0 && taken.back() < 200);
  PeerSocket raw = ConnectRaw(server->port());
  WaitForEnd(raw);
  for (const int descriptor : taken) ::close(descriptor);
  PeerClient client(TestClientOptions());
  EXPECT_TRUE(client.Call(At(server->port()), "ask", kEnough).ok());
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
}

TEST(PeersTest, ASlowReaderIsGivenUp) {
  PeerServerOptions options = TestServerOptions();
  options.connection_count_max = 1;
  options.stall_seconds_max = 0.2;
  const auto server = StartServer(
      [](std::string_view) {
        return PeerAnswer(Bytes(std::string(64 << 20, 'm')));
      },
      options);
  PeerSocket slow = ConnectRaw(server->port());
  JoinServer(slow, kTestSecret);
  SendText(slow, FrameText(PeerFrameKind::kRequest, "much"));
  EXPECT_EQ(ReceiveText(slow, 1), "a");
  // There is room for another client once the slow one is gone.
  PeerClient client(TestClientOptions());
  while (client.Call(At(server->port()), "ask", kEnough).status().code() ==
         StatusCode::kUnavailable) {
  }
  uint64_t received = 0;
  std::string rest(64 << 20, '\0');
  EXPECT_EQ(slow.Receive(rest.data(), rest.size(), LongWait(), received).code(),
            StatusCode::kUnavailable);
}

// --- Answers that are files ---

class TestFile {
 public:
  explicit TestFile(std::string_view bytes)
      : descriptor_(::memfd_create("peers_test", MFD_CLOEXEC)) {
    EXPECT_EQ(::write(descriptor_, bytes.data(), bytes.size()),
              static_cast<ssize_t>(bytes.size()));
  }
  ~TestFile() { ::close(descriptor_); }
  PeerFilePiece Piece(uint64_t offset, uint64_t byte_count) const {
    return {nullptr, descriptor_, offset, byte_count};
  }

 private:
  const int descriptor_;
};

std::string PatternOf(size_t byte_count) {
  std::string bytes(byte_count, '\0');
  for (size_t i = 0; i < byte_count; ++i) {
    bytes[i] = static_cast<char>(i * 11 + i / 253);
  }
  return bytes;
}

TEST(PeersTest, PiecesOfFilesComeToWhomeverHasTheirChecksum) {
  const std::string first = PatternOf(3'000'001);
  const std::string second = PatternOf(70'000);
  const TestFile files[] = {TestFile(first), TestFile(second)};
  PeerServerOptions options = TestServerOptions();
  options.connection_count_max = 1;  // the connection survives all calls
  const auto server = StartServer(
      [&](std::string_view request) {
        if (request == "bytes") return PeerAnswer(Bytes(std::string("short")));
        return PeerAnswer({files[1].Piece(3, 60'000), files[0].Piece(0, 0),
                           files[0].Piece(1, 3'000'000)});
      },
      options);
  const std::string wanted = second.substr(3, 60'000) + first.substr(1);
  PeerClient client(TestClientOptions());
  const PeerAddress peer = At(server->port());
  std::string target(wanted.size(), 'x');
  for (int i = 0; i < 3; ++i) {
    const auto filled = client.Call(peer, "files", kEnough, target, nullptr,
                                    AnswerCheck::kByCaller);
    ASSERT_TRUE(filled.ok()) << filled.status().ToString();
    EXPECT_EQ(target, wanted);
    const auto answer = client.Call(peer, "files", kEnough, {}, nullptr,
                                    AnswerCheck::kByCaller);
    ASSERT_TRUE(answer.ok()) << answer.status().ToString();
    EXPECT_EQ(answer->view(), wanted);
    const auto bytes = client.Call(peer, "bytes", kEnough);
    ASSERT_TRUE(bytes.ok()) << bytes.status().ToString();
    EXPECT_EQ(bytes->view(), "short");
  }
  const Status status = client.Call(peer, "files", kEnough, target).status();
  EXPECT_EQ(status.code(), StatusCode::kDataLoss);
  EXPECT_THAT(status.message(), HasSubstr("without a checksum"));
}

TEST(PeersTest, WhatAFileLacksComesAsZeros) {
  const std::string bytes = PatternOf(100'000);
  const TestFile file(bytes);
  const auto server = StartServer([&](std::string_view) {
    return PeerAnswer({file.Piece(50, 300'000), file.Piece(0, 10)});
  });
  PeerClient client(TestClientOptions());
  const auto answer = client.Call(At(server->port()), "ask", kEnough, {},
                                  nullptr, AnswerCheck::kByCaller);
  ASSERT_TRUE(answer.ok()) << answer.status().ToString();
  EXPECT_EQ(answer->view(), bytes.substr(50) +
                                std::string(300'000 - 99'950, '\0') +
                                bytes.substr(0, 10));
}

TEST(PeersTest, ASlowReaderOfFilesIsGivenUp) {
  const TestFile file(PatternOf(64 << 20));
  PeerServerOptions options = TestServerOptions();
  options.connection_count_max = 1;
  options.stall_seconds_max = 0.2;
  const auto server = StartServer(
      [&](std::string_view request) {
        if (request == "ask") return PeerAnswer();
        return PeerAnswer({file.Piece(0, 64 << 20)});
      },
      options);
  PeerSocket slow = ConnectRaw(server->port());
  JoinServer(slow, kTestSecret);
  SendText(slow, FrameText(PeerFrameKind::kRequest, "files"));
  EXPECT_EQ(ReceiveText(slow, 1), "a");
  PeerClient client(TestClientOptions());
  while (client.Call(At(server->port()), "ask", kEnough).status().code() ==
         StatusCode::kUnavailable) {
  }
}

// A reader that goes away does not kill the process by SIGPIPE, either.
TEST(PeersTest, ServersOfFilesOutliveReadersThatGo) {
  const TestFile file(PatternOf(64 << 20));
  const auto server = StartServer([&](std::string_view request) {
    if (request == "ask") return PeerAnswer();
    return PeerAnswer({file.Piece(0, 64 << 20)});
  });
  for (int i = 0; i < 20; ++i) {
    PeerSocket gone = ConnectRaw(server->port());
    JoinServer(gone, kTestSecret);
    SendText(gone, FrameText(PeerFrameKind::kRequest, "files"));
    EXPECT_EQ(ReceiveText(gone, 1), "a");
  }
  PeerClient client(TestClientOptions());
  EXPECT_TRUE(client.Call(At(server->port()), "ask", kEnough).ok());
}

TEST(PeersTest, AnswersThatWaitForReadersAreBounded) {
  PeerServerOptions options = TestServerOptions();
  options.held_answer_bytes_max = 1;
  const auto server = StartServer(
      [](std::string_view) {
        return PeerAnswer(Bytes(std::string(64 << 20, 'm')));
      },
      options);
  std::optional<PeerSocket> slow = ConnectRaw(server->port());
  JoinServer(*slow, kTestSecret);
  SendText(*slow, FrameText(PeerFrameKind::kRequest, "much"));
  EXPECT_EQ(ReceiveText(*slow, 1), "a");
  PeerClient client(TestClientOptions());
  const Status refused =
      client.Call(At(server->port()), "ask", kEnough).status();
  EXPECT_EQ(refused.code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(refused.message(), HasSubstr("slow readers"));
  slow.reset();
  while (!client.Call(At(server->port()), "ask", kEnough).ok()) {
  }
}

TEST(PeersTest, RequestsThatAreTooLargeOrDamagedAreRefused) {
  std::atomic<int> call_count = 0;
  const auto server = StartServer([&](std::string_view request) {
    ++call_count;
    return Echo(request);
  });
  PeerClient client(TestClientOptions());
  const Status large =
      client.Call(At(server->port()), std::string(40 << 20, 'r'), kEnough)
          .status();
  EXPECT_EQ(large.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(large.message(), HasSubstr("got 41943040 bytes"));
  PeerSocket raw = ConnectRaw(server->port());
  JoinServer(raw, kTestSecret);
  std::string request = FrameText(PeerFrameKind::kRequest, "ask");
  request.back() ^= 1;
  for (const std::string& text : {request, std::string(kPeerHeadBytes, 'g')}) {
    SendText(raw, text);
    const auto head =
        ParsePeerHead(ReceiveText(raw, kPeerHeadBytes), PeerFrameKind::kAnswer);
    ASSERT_TRUE(head.ok()) << head.status().ToString();
    EXPECT_EQ(head->code, StatusCode::kDataLoss);
    ReceiveText(raw, head->payload_bytes);
  }
  EXPECT_EQ(call_count, 0);
  EXPECT_TRUE(client.Call(At(server->port()), "ask", kEnough).ok());
}

TEST(PeersTest, AClientOfAnotherVersionLearnsThisOne) {
  const auto server = StartServer();
  PeerSocket raw = ConnectRaw(server->port());
  std::string hello = EncodePeerHello(std::string(kPeerNonceBytes, 'm'));
  hello[6] = kPeerVersion + 1;
  SendText(raw, hello);
  const std::string welcome = ReceiveText(raw, kPeerWelcomeBytes);
  ASSERT_EQ(welcome.size(), kPeerWelcomeBytes);
  EXPECT_TRUE(ParsePeerHello(welcome.substr(0, kPeerHelloBytes)).ok());
  PeerSocket web = ConnectRaw(server->port());
  SendText(web, "GET / HTTP/1.1\r\nHost: here\r\n\r\n");
  EXPECT_EQ(ReceiveText(web, 1), "");
}

TEST(PeersTest, TheServerWaitsForHandlersThatRun) {
  std::promise<void> entered;
  std::promise<void> released;
  std::atomic<bool> is_done = false;
  auto server = StartServer([&](std::string_view) -> Result<PeerAnswer> {
    entered.set_value();
    released.get_future().wait();
    is_done = true;
    return PeerAnswer();
  });
  PeerClient client(TestClientOptions());
  const uint16_t port = server->port();
  std::future<Status> call = std::async(std::launch::async, [&] {
    return client.Call(At(port), "ask", kEnough).status();
  });
  entered.get_future().wait();
  std::future<void> end = std::async(std::launch::async, [&] {
    server.reset();
    EXPECT_TRUE(is_done);
  });
  released.set_value();
  end.wait();
  call.wait();  // the answer may or may not have been sent
}

TEST(PeersTest, NamesAndBothKindsOfAddresses) {
  PeerServerOptions options = TestServerOptions();
  const auto server = StartServer(Echo, options);
  PeerClient client(TestClientOptions());
  EXPECT_TRUE(
      client.Call({"localhost", server->port(), ""}, "ask", kEnough).ok());
  options.address = "::1";
  const auto server6 = PeerServer::Start(options, Echo);
  if (!server6.ok()) GTEST_SKIP() << server6.status().ToString();
  const uint16_t port = (*server6)->port();
  EXPECT_TRUE(client.Call({"::1", port, ""}, "ask", kEnough).ok());
  PeerClient other({.secret = "another"});
  EXPECT_THAT(other.Call({"::1", port, ""}, "ask", kEnough).status().message(),
              StartsWith("[::1]:" + std::to_string(port) + ": "));
}

TEST(PeersTest, ServersThatCannotStart) {
  const auto code_of = [](const PeerServerOptions& options) {
    return PeerServer::Start(options, Echo).status().code();
  };
  PeerServerOptions options = TestServerOptions();
  options.address = "nowhere";
  EXPECT_EQ(code_of(options), StatusCode::kInvalidArgument);
  options = TestServerOptions();
  options.secret = "";
  EXPECT_EQ(code_of(options), StatusCode::kInvalidArgument);
  const auto server = StartServer();
  options = TestServerOptions();
  options.port = server->port();
  EXPECT_EQ(code_of(options), StatusCode::kAlreadyExists);
}

}  // namespace
}  // namespace holdfast
