// Tests the server with real sockets: what it answers, what it refuses, and how
// it copes with many, slow and hostile clients. Also tests the HTTP syntax
// separately.
#include "holdfast/tools/serve.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>
#include <thread>

#include "checkpoint/test_trees.h"
#include "holdfast/tools/convert.h"
#include "stores/storage/unique_fd.h"
#include "tools/serve/http_message.h"
#include "twins/file_bytes.h"
#include "twins/scratch_directory.h"

namespace holdfast {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

namespace fs = std::filesystem;

UniqueFd Connect(uint16_t port) {
  UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(
      connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address),
      0);
  return fd;
}

void Send(const UniqueFd& fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t count =
        send(fd.get(), text.data(), text.size(), MSG_NOSIGNAL);
    if (count <= 0) return;
    text.remove_prefix(count);
  }
}

// Reads everything until the server closes the connection.
std::string ReadAll(const UniqueFd& fd) {
  std::string all;
  char buffer[65536];
  for (;;) {
    const ssize_t count = recv(fd.get(), buffer, sizeof buffer, 0);
    if (count <= 0) return all;
    all.append(buffer, count);
  }
}

std::string BodyOf(const std::string& answer) {
  const size_t end = answer.find("\r\n\r\n");
  return end == std::string::npos ? "" : answer.substr(end + 4);
}

class ServeTest : public ::testing::Test {
 protected:
  void SetUp() override {
    Tree tree = AllKindsTree();
    tree.Add("w", Tree(RandomArray(DType::kFloat32, {600, 700}, 1)));
    SaveOptions save;
    save.sync = false;
    ASSERT_TRUE(Save(root() + "/1", tree, save).ok());
    ASSERT_TRUE(Save(root() + "/2", tree, save).ok());
    options_.paths = {root()};
  }

  std::string root() const { return scratch_.path() + "/root"; }

  void Start() {
    auto server = Server::Start(options_);
    ASSERT_TRUE(server.ok()) << server.status().ToString();
    server_ = *std::move(server);
  }

  std::string Ask(const std::string& request) {
    const UniqueFd fd = Connect(server_->port());
    Send(fd, request);
    return ReadAll(fd);
  }

  // Sends a request. Follows the redirect from an address without a step to the
  // step's address.
  std::string Get(const std::string& target, const std::string& fields = "",
                  const std::string& method = "GET") {
    const std::string answer = GetOnce(target, fields, method);
    if (!answer.starts_with("HTTP/1.1 307")) return answer;
    return GetOnce(FieldOf(answer, "Location"), fields, method);
  }

  static std::string FieldOf(const std::string& answer,
                             const std::string& name) {
    const size_t at = answer.find("\r\n" + name + ": ");
    EXPECT_NE(at, std::string::npos) << name << " of " << answer;
    if (at == std::string::npos) return "";
    const size_t begin = at + name.size() + 4;
    return answer.substr(begin, answer.find("\r\n", begin) - begin);
  }

  std::string GetOnce(const std::string& target, const std::string& fields = "",
                      const std::string& method = "GET") {
    return Ask(method + " " + target +
               " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n" +
               fields + "\r\n");
  }

  ScratchDirectory scratch_;
  ServeOptions options_;
  std::unique_ptr<Server> server_;
};

constexpr char kModel[] = "/as/safetensors/model.safetensors";

TEST_F(ServeTest, GivesTheFileThatAConversionWrites) {
  Start();
  ConvertOptions convert;
  convert.format = Format::kSafetensors;
  ASSERT_TRUE(
      Convert(root() + "/2", scratch_.path() + "/m.safetensors", convert).ok());
  const std::string model = BytesOf(scratch_.path() + "/m.safetensors");
  EXPECT_EQ(BodyOf(Get(kModel)), model);
  EXPECT_EQ(BodyOf(Get("/at/root/1" + std::string(kModel))).size(),
            model.size());
  const std::string part = Get(kModel, "Range: bytes=100-299\r\n");
  EXPECT_THAT(part, StartsWith("HTTP/1.1 206"));
  EXPECT_THAT(part, HasSubstr("Content-Range: bytes 100-299/" +
                              std::to_string(model.size())));
  EXPECT_EQ(BodyOf(part), model.substr(100, 200));
  EXPECT_EQ(BodyOf(Get(kModel, "Range: bytes=-10\r\n")),
            model.substr(model.size() - 10));
  EXPECT_THAT(Get(kModel, "Range: bytes=999999999-\r\n"),
              StartsWith("HTTP/1.1 416"));
  const std::string head = Get(kModel, "", "HEAD");
  EXPECT_THAT(head,
              HasSubstr("Content-Length: " + std::to_string(model.size())));
  EXPECT_EQ(BodyOf(head), "");
}

TEST_F(ServeTest, ConditionsGoByTheTag) {
  Start();
  const std::string head = Get(kModel, "", "HEAD");
  const size_t at = head.find("ETag: ") + 6;
  const std::string tag = head.substr(at, head.find("\r\n", at) - at);
  EXPECT_THAT(Get(kModel, "If-None-Match: " + tag + "\r\n"),
              StartsWith("HTTP/1.1 304"));
  EXPECT_THAT(Get(kModel, "If-Match: \"other\"\r\n"),
              StartsWith("HTTP/1.1 412"));
  EXPECT_THAT(Get(kModel, "If-Range: " + tag + "\r\nRange: bytes=0-1\r\n"),
              StartsWith("HTTP/1.1 206"));
  EXPECT_THAT(Get(kModel, "If-Range: \"other\"\r\nRange: bytes=0-1\r\n"),
              StartsWith("HTTP/1.1 200"));
}

TEST_F(ServeTest, PagesAndLists) {
  Start();
  const std::string page = Get("/");
  EXPECT_THAT(page, HasSubstr("Content-Type: text/html"));
  EXPECT_THAT(page, HasSubstr("as/safetensors/"));
  EXPECT_THAT(Get("/as"), StartsWith("HTTP/1.1 301"));
  EXPECT_THAT(Get("/as/"), HasSubstr("<a href=\"safetensors/\">"));
  EXPECT_THAT(BodyOf(Get("/as/zarr/w/", "Accept: application/json\r\n")),
              HasSubstr("{\"name\":\".zarray\",\"size\":"));
  EXPECT_THAT(Get("/at/root/newest/"), StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(Get("/at/root/7/"), StartsWith("HTTP/1.1 404"));
  EXPECT_THAT(Get("/at/root/x/"), StartsWith("HTTP/1.1 404"));
  EXPECT_EQ(BodyOf(Get("/healthz")), "ok\n");
  EXPECT_THAT(BodyOf(Get("/metrics")), ::testing::EndsWith("# EOF\n"));
}

TEST_F(ServeTest, RefusesWhatItShould) {
  options_.token = "secret";
  Start();
  EXPECT_THAT(Get(kModel), StartsWith("HTTP/1.1 401"));
  EXPECT_THAT(Get(kModel, "Authorization: Bearer secre\r\n"),
              StartsWith("HTTP/1.1 401"));
  EXPECT_THAT(Get(kModel, "Authorization: Bearer secret\r\n"),
              StartsWith("HTTP/1.1 200"));
  const std::string with = Get("/?token=secret");
  EXPECT_THAT(with, StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(with, HasSubstr("Set-Cookie: holdfast_token=secret"));
  EXPECT_EQ(FieldOf(GetOnce(std::string(kModel) + "?token=secret"), "Location"),
            "/at/root/2" + std::string(kModel) + "?token=secret");
  EXPECT_THAT(Get(kModel, "Cookie: a=b; holdfast_token=secret\r\n"),
              StartsWith("HTTP/1.1 200"));
  // A request from another site's page, whose host name resolves to this
  // address.
  EXPECT_THAT(Ask("GET / HTTP/1.1\r\nHost: evil.example:80\r\nConnection: "
                  "close\r\nAuthorization: Bearer secret\r\n\r\n"),
              StartsWith("HTTP/1.1 403"));
  EXPECT_THAT(Get(kModel, "", "DELETE"), StartsWith("HTTP/1.1 405"));
  EXPECT_THAT(Get(kModel, "Content-Length: 5\r\n", "POST"),
              StartsWith("HTTP/1.1 413"));
  EXPECT_THAT(Get(kModel, "X: " + std::string(40000, 'x') + "\r\n"),
              StartsWith("HTTP/1.1 431"));
  EXPECT_THAT(Ask("rubbish\r\n\r\n"), StartsWith("HTTP/1.1 400"));
}

TEST_F(ServeTest, NeverLeavesTheCheckpoint) {
  std::ofstream(scratch_.path() + "/secret") << "top secret";
  fs::create_symlink(scratch_.path() + "/secret", root() + "/2/link");
  Start();
  for (const std::string target :
       {"/files/../../secret", "/files/%2e%2e/%2e%2e/secret", "/files/link",
        "/files/..%2f..%2fsecret", "//secret", "/../secret",
        "/at/root/2/files/../../../secret", "/at/../secret/", "/files/%00"}) {
    const std::string answer = Get(target);
    EXPECT_THAT(answer, StartsWith("HTTP/1.1 4")) << target;
    EXPECT_THAT(answer, Not(HasSubstr("top secret"))) << target;
  }
}

TEST_F(ServeTest, HostileRequestsHurtNobody) {
  options_.header_seconds_max = 1;
  Start();
  const std::string good = BodyOf(Get(kModel));
  std::mt19937_64 random(11);
  const std::string base =
      "GET /at/root/2/as/zarr/w/0.0 HTTP/1.1\r\nHost: localhost\r\nRange: "
      "bytes=0-9\r\nConnection: close\r\n\r\n";
  for (int i = 0; i < 500; ++i) {
    std::string request = base;
    for (uint64_t k = random() % 6; k-- > 0;) {
      const size_t at = random() % request.size();
      switch (random() % 4) {
        case 0:
          request[at] = static_cast<char>(random());
          break;
        case 1:
          request.erase(at, random() % 9);
          break;
        case 2:
          request.insert(at, std::string(random() % 300, '%'));
          break;
        case 3:
          request.insert(at, "\r\nContent-Length: -1");
          break;
      }
      if (request.empty()) request = "x";
    }
    const UniqueFd fd = Connect(server_->port());
    Send(fd, request);
    shutdown(fd.get(), SHUT_WR);
    const std::string answer = ReadAll(fd);
    EXPECT_THAT(answer, Not(HasSubstr("top secret")));
  }
  EXPECT_EQ(BodyOf(Get(kModel)), good);
}

// Clients that send nothing, or stop reading, do not block others forever.
TEST_F(ServeTest, SlowClientsAreCutOff) {
  options_.client_count_max = 8;
  options_.header_seconds_max = 0.2;
  options_.idle_seconds_max = 0.2;
  options_.write_seconds_max = 0.2;
  Start();
  std::vector<UniqueFd> silent;
  for (int i = 0; i < 8; ++i) {
    silent.push_back(Connect(server_->port()));
    Send(silent.back(), "GET / HT");
  }
  // The server closes each of them, whatever it waits for from them.
  for (const UniqueFd& fd : silent) EXPECT_EQ(ReadAll(fd), "");
  EXPECT_EQ(BodyOf(Get("/healthz")), "ok\n");
}

// There are more slow clients than threads. Some read nothing of a large
// response, some read byte by byte. Other clients are served in the meantime.
// In the end the slow clients are disconnected with only a part of the
// response.
TEST_F(ServeTest, SlowReadersOfLargeAnswersAreCutOff) {
  constexpr size_t kSlowCount = 24;
  constexpr int64_t kBytes = 64 << 20;
  Tree tree = Tree::Dict();
  tree.Add("large", Tree(RandomArray(DType::kInt8, {kBytes}, 2)));
  SaveOptions save;
  save.sync = false;
  ASSERT_TRUE(Save(scratch_.path() + "/large", tree, save).ok());
  options_.paths = {scratch_.path() + "/large"};
  options_.client_count_max = kSlowCount + 1;
  options_.write_seconds_max = 1;
  Start();
  std::vector<UniqueFd> slow;
  std::vector<size_t> seen(kSlowCount);
  std::string request = "GET " + std::string(kModel) +
                        " HTTP/1.1\r\nHost: localhost\r\nConnection: "
                        "close\r\nRange: bytes=100-\r\n\r\n";
  char byte;
  for (size_t i = 0; i < kSlowCount; ++i) {
    slow.push_back(Connect(server_->port()));
    const int few_bytes = 4096;
    setsockopt(slow[i].get(), SOL_SOCKET, SO_RCVBUF, &few_bytes,
               sizeof few_bytes);
    Send(slow[i], request);
    seen[i] = static_cast<size_t>(recv(slow[i].get(), &byte, 1, 0));
    ASSERT_EQ(seen[i], 1u);
  }
  EXPECT_EQ(BodyOf(Get("/healthz")), "ok\n");
  EXPECT_EQ(BodyOf(Get(kModel, "Range: bytes=0-7\r\n")).size(), 8u);
  // While the slow clients are connected, only one more client is accepted, and
  // the next is refused.
  std::vector<UniqueFd> others;
  const auto all_have_gone = [&] {
    others.clear();
    for (size_t i = 0; i < kSlowCount + 1; ++i) {
      others.push_back(Connect(server_->port()));
      Send(others[i], "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n");
      char start[13] = {};
      if (recv(others[i].get(), start, 12, MSG_WAITALL) != 12 ||
          std::string_view(start) != "HTTP/1.1 200") {
        return false;
      }
    }
    return true;
  };
  EXPECT_FALSE(all_have_gone());
  bool have_gone = false;
  for (int i = 0; i < 1500 && !have_gone; ++i) {
    for (size_t k = 0; k < kSlowCount; k += 2) {
      const ssize_t count = recv(slow[k].get(), &byte, 1, MSG_DONTWAIT);
      if (count > 0) ++seen[k];
    }
    poll(nullptr, 0, 20);
    have_gone = all_have_gone();
  }
  EXPECT_TRUE(have_gone);
  for (size_t i = 0; i < kSlowCount; ++i) {
    EXPECT_LT(seen[i] + ReadAll(slow[i]).size(), size_t{kBytes});
  }
}

TEST_F(ServeTest, TooManyClientsAreTurnedAway) {
  options_.client_count_max = 4;
  Start();
  std::vector<UniqueFd> idle;
  for (int i = 0; i < 4; ++i) {
    idle.push_back(Connect(server_->port()));
    // Send a request and wait for the response, so that the server surely
    // counts the client.
    Send(idle.back(), "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n");
    char byte;
    EXPECT_EQ(recv(idle.back().get(), &byte, 1, 0), 1);
  }
  const UniqueFd one_more = Connect(server_->port());
  EXPECT_THAT(ReadAll(one_more), StartsWith("HTTP/1.1 503"));
}

TEST_F(ServeTest, StopsWhileClientsRead) {
  Start();
  const UniqueFd fd = Connect(server_->port());
  Send(fd, "GET /at/root/2" + std::string(kModel) +
               " HTTP/1.1\r\nHost: localhost\r\n\r\n");
  char byte;
  EXPECT_EQ(recv(fd.get(), &byte, 1, 0), 1);
  server_.reset();
  const std::string rest = ReadAll(fd);
  EXPECT_LT(rest.size(), size_t{1} << 30);  // the response was cut off
}

TEST_F(ServeTest, TheStepThatIsNewestNowIsServed) {
  Start();
  EXPECT_THAT(Get("/as/zarr/new/.zarray"), StartsWith("HTTP/1.1 404"));
  Tree tree = AllKindsTree();
  tree.Add("new", Tree(RandomArray(DType::kInt8, {4}, 9)));
  SaveOptions save;
  save.sync = false;
  ASSERT_TRUE(Save(root() + "/3", tree, save).ok());
  // The server looks for a newer step after a second, so ask until it has.
  std::string answer;
  for (int i = 0; i < 600 && !answer.starts_with("HTTP/1.1 200"); ++i) {
    poll(nullptr, 0, 20);
    answer = Get("/as/zarr/new/.zarray");
  }
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 200"));
}

// A client that reads in ranges gets a single step, whatever is saved in the
// meantime.
TEST_F(ServeTest, AnAddressWithoutAStepStaysWithItsStep) {
  Start();
  const std::string before = FieldOf(Get("/"), "ETag");
  EXPECT_THAT(Get(kModel, "Range: bytes=0-7\r\n"), StartsWith("HTTP/1.1 206"));
  SaveOptions save;
  save.sync = false;
  ASSERT_TRUE(Save(root() + "/3", AllKindsTree(), save).ok());
  // The server looks for a newer step after a second, so ask until it shows
  // step 3.
  std::string now = before;
  for (int i = 0; i < 600 && now == before; ++i) {
    poll(nullptr, 0, 20);
    now = FieldOf(Get("/"), "ETag");
  }
  ASSERT_NE(now, before);
  for (const std::string target : {kModel, "/at/root/newest/as/zarr/w/0.0"}) {
    const std::string answer = GetOnce(target, "Range: bytes=8-99\r\n");
    EXPECT_THAT(answer, StartsWith("HTTP/1.1 307")) << target;
    EXPECT_THAT(FieldOf(answer, "Location"), StartsWith("/at/root/2/as/"));
  }
}

TEST_F(ServeTest, PartsOfAReplacedCheckpointAreRefused) {
  Start();
  const std::string target = "/at/root/1" + std::string(kModel);
  const std::string range = "Range: bytes=0-7\r\n";
  const std::string tag = FieldOf(Get(target, range), "ETag");
  SaveOptions save;
  save.sync = false;
  save.overwrite = true;
  ASSERT_TRUE(Save(root() + "/1", AllKindsTree(), save).ok());
  EXPECT_THAT(Get(target, range), StartsWith("HTTP/1.1 412"));
  EXPECT_THAT(Get(target, range + "If-Match: " + tag + "\r\n"),
              StartsWith("HTTP/1.1 412"));
  EXPECT_THAT(Get(target, range + "If-Range: " + tag + "\r\n"),
              StartsWith("HTTP/1.1 200"));
  const std::string whole = Get(target);
  EXPECT_THAT(whole, StartsWith("HTTP/1.1 200"));
  const std::string now = FieldOf(whole, "ETag");
  EXPECT_NE(now, tag);
  EXPECT_THAT(Get(target, range + "If-Match: " + now + "\r\n"),
              StartsWith("HTTP/1.1 206"));
}

TEST_F(ServeTest, DamageOfAStoredFileEndsTheConnection) {
  const std::string directory = root() + "/2/ocdbt.process_0/d/";
  const std::string file = fs::directory_iterator(directory)->path();
  const auto time = fs::last_write_time(file);
  const uint64_t byte_count = fs::file_size(file);
  {
    std::fstream stored(file, std::ios::in | std::ios::out | std::ios::binary);
    stored.seekg(static_cast<std::streamoff>(byte_count / 3));
    const int byte = stored.get();
    stored.seekp(static_cast<std::streamoff>(byte_count / 3));
    stored.put(static_cast<char>(byte ^ 1));
  }
  fs::last_write_time(file, time);
  Start();
  const std::string target =
      "/files/ocdbt.process_0/d/" + fs::path(file).filename().string();
  EXPECT_LT(BodyOf(Get(target)).size(), byte_count);
}

TEST_F(ServeTest, ALinkToADirectoryKeepsNothingFromBeingServed) {
  fs::create_directory_symlink(root(), root() + "/2/notes");
  Start();
  EXPECT_THAT(Get("/"), StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(Get("/files/_METADATA"), StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(Get("/files/notes/2/_METADATA"), StartsWith("HTTP/1.1 404"));
}

// Clients that connect and send nothing do not block others, however many there
// are.
TEST_F(ServeTest, SilentClientsMakeRoom) {
  options_.client_count_max = 4;
  options_.header_seconds_max = 600;
  Start();
  std::vector<UniqueFd> silent;
  for (int i = 0; i < 20; ++i) silent.push_back(Connect(server_->port()));
  EXPECT_EQ(BodyOf(Get("/healthz")), "ok\n");
  // The server has closed the connection that was opened first.
  EXPECT_EQ(ReadAll(silent.front()), "");
}

TEST_F(ServeTest, OtherMachinesNeedAToken) {
  options_.host = "0.0.0.0";
  Start();
  EXPECT_EQ(server_->token().size(), 32u);
  EXPECT_THAT(Get("/healthz"), StartsWith("HTTP/1.1 401"));
  ServeOptions taken = options_;
  taken.port = server_->port();
  EXPECT_EQ(Server::Start(taken).status().code(), StatusCode::kAlreadyExists);
  taken.host = "nowhere.example";
  EXPECT_EQ(Server::Start(taken).status().code(), StatusCode::kInvalidArgument);
  taken.paths.clear();
  EXPECT_EQ(Server::Start(taken).status().code(), StatusCode::kInvalidArgument);
}

TEST(HttpMessageTest, Ranges) {
  ServedRange range;
  const auto parse = [&](std::string_view field, uint64_t byte_count) {
    range = {77, 77};
    return ParseRange(field, byte_count, range);
  };
  EXPECT_EQ(parse("bytes=0-0", 10), RangeKind::kPart);
  EXPECT_EQ(range.byte_count, 1u);
  EXPECT_EQ(parse("bytes=3-", 10), RangeKind::kPart);
  EXPECT_EQ(range.byte_count, 7u);
  EXPECT_EQ(parse("bytes=-99", 10), RangeKind::kPart);
  EXPECT_EQ(range.offset, 0u);
  EXPECT_EQ(parse("bytes=2-99999999999999999", 10), RangeKind::kPart);
  EXPECT_EQ(range.byte_count, 8u);
  for (const char* field : {"bytes=10-", "bytes=-0", "bytes=11-12"}) {
    EXPECT_EQ(parse(field, 10), RangeKind::kOutside) << field;
  }
  for (const char* field :
       {"", "bytes", "bytes=", "bytes=-", "bytes=5-4", "bytes=a-b", "lines=0-1",
        "bytes=0-1,3-4", "bytes=99999999999999999999-", "bytes=+1-2"}) {
    EXPECT_EQ(parse(field, 10), RangeKind::kWhole) << field;
  }
  EXPECT_EQ(parse("bytes=0-", 0), RangeKind::kOutside);
}

TEST(HttpMessageTest, Targets) {
  const auto target = ParseTarget("/a%20b/%C3%A9?token=x%26y&z");
  ASSERT_TRUE(target.has_value());
  EXPECT_EQ(target->path, "/a b/\xC3\xA9");
  EXPECT_EQ(target->query.at("token"), "x&y");
  EXPECT_EQ(target->query.at("z"), "");
  for (const char* text : {"", "a", "/%", "/%4", "/%zz", "/%00", "/?a=%00"}) {
    EXPECT_FALSE(ParseTarget(text).has_value()) << text;
  }
  EXPECT_EQ(EncodePart("a b/\xC3\xA9"), "a%20b%2F%C3%A9");
  EXPECT_EQ(EscapeHtml("<a href='\"&'>"),
            "&lt;a href=&#39;&quot;&amp;&#39;&gt;");
}

TEST(HttpMessageTest, Tags) {
  EXPECT_TRUE(HasTag("\"a\", \"b\"", "\"b\"", false));
  EXPECT_TRUE(HasTag("*", "\"b\"", false));
  EXPECT_TRUE(HasTag("W/\"b\"", "\"b\"", true));
  EXPECT_FALSE(HasTag("W/\"b\"", "\"b\"", false));
  EXPECT_FALSE(HasTag("\"a\",,", "\"b\"", true));
}

}  // namespace
}  // namespace holdfast
