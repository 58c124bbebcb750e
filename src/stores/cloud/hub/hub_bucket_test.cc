#include "stores/cloud/hub/hub_bucket.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <map>

#include "stores/cloud/hub/hub_listing.h"
#include "twins/http_test_server.h"

namespace holdfast {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

const std::string kCommit(40, 'a');
constexpr std::string_view kTree =
    R"([{"type": "directory", "oid": "0", "path": "sub"},
        {"type": "file", "oid": "g1", "size": 10, "path": "a.npz",
         "lfs": {"oid": "l1", "size": 10}},
        {"type": "file", "oid": "g2", "size": 3, "path": "sub/b"},
        {"type": "file", "oid": "g3", "size": 1, "path": "sub/c"},
        {"type": "file", "oid": "g4", "size": 0, "path": "sub.d"}])";

// A hub with one repository, and the server for large files that it redirects
// to.
struct HubBucketTest : testing::Test {
  std::map<std::string, TestAnswer> answers;  // the hub's, by target
  HttpTestServer files{[](const TestRequest& request) {
    TestAnswer answer;
    answer.status = 206;
    answer.body = "0123456789";
    answer.headers = {{"Content-Range", "bytes 0-9/10"}};
    // No token may be sent here.
    if (FindHeader(request.headers, "authorization")) answer.status = 400;
    return answer;
  }};
  HttpTestServer hub{[this](const TestRequest& request) {
    const auto found = answers.find(request.target);
    if (found != answers.end()) return found->second;
    TestAnswer answer;
    answer.status = 404;
    answer.headers = {{"X-Error-Code", "RepoNotFound"}};
    return answer;
  }};
  std::string token = "hf_secret";

  void SetUp() override {
    answers["/api/models/org/m/revision/main"].body =
        R"({"sha": ")" + kCommit + R"("})";
    answers[Tree()].body = kTree;
    answers["/org/m/resolve/" + kCommit + "/a.npz"] = Redirect();
  }
  static std::string Tree() {
    return "/api/models/org/m/tree/" + kCommit + "?recursive=true";
  }
  TestAnswer Redirect() const {
    TestAnswer answer;
    answer.status = 302;
    answer.headers = {{"Location", files.Url("/blob?signature=x")}};
    return answer;
  }
  static TestAnswer Refusal(int status, const std::string& code) {
    TestAnswer answer;
    answer.status = status;
    if (!code.empty()) answer.headers = {{"X-Error-Code", code}};
    return answer;
  }
  std::shared_ptr<Bucket> Opened(const std::string& root = "hf://org/m",
                                 const std::string& offline = "") {
    RemoteOptions options;
    options.http.attempt_count_max = 1;
    const Environment environment = [=, this](const std::string& name) {
      if (name == "HF_ENDPOINT") return hub.Url("");
      if (name == "HF_HUB_OFFLINE") return offline;
      return name == "HF_TOKEN" ? token : std::string();
    };
    return OpenHubBucket(root, options, environment).value();
  }
  static Result<GetResult> Get(Bucket& bucket, GetRequest request) {
    return bucket.Get({&request, 1}).front();
  }
  Status ListStatus() { return Opened()->List({}).status(); }
};

std::vector<std::string> KeysOf(const ListPage& page) {
  std::vector<std::string> keys = page.prefixes;
  for (const ObjectEntry& object : page.objects) keys.push_back(object.key);
  std::sort(keys.begin(), keys.end());
  return keys;
}

TEST_F(HubBucketTest, ListsTheFilesOfOneCommit) {
  const auto bucket = Opened();
  EXPECT_THAT(KeysOf(*bucket->List({})),
              ElementsAre("a.npz", "sub.d", "sub/b", "sub/c"));
  EXPECT_THAT(KeysOf(*bucket->List({.delimiter = "/"})),
              ElementsAre("a.npz", "sub.d", "sub/"));
  EXPECT_THAT(KeysOf(*bucket->List({.prefix = "sub/", .delimiter = "/"})),
              ElementsAre("sub/b", "sub/c"));
  EXPECT_THAT(KeysOf(*bucket->List({.start_after = "sub/b"})),
              ElementsAre("sub/c"));
  const ObjectEntry entry = bucket->List({})->objects.front();
  EXPECT_EQ(entry.byte_count, 10u);
  EXPECT_EQ(entry.version, "l1");
  EXPECT_EQ(bucket->Head("sub/b")->version, "g2");
  EXPECT_EQ(bucket->Head("sub").status().code(), StatusCode::kNotFound);
  EXPECT_EQ(hub.requests().size(), 2u);
}

TEST_F(HubBucketTest, PagesOfListsFollowEachOther) {
  const auto bucket = Opened();
  for (const char* delimiter : {"", "/"}) {
    const auto whole = bucket->List({.delimiter = delimiter});
    std::vector<std::string> keys;
    ListRequest request{.delimiter = delimiter, .entry_count_max = 1};
    do {
      const auto page = bucket->List(request);
      ASSERT_TRUE(page.ok());
      for (const std::string& key : KeysOf(*page)) keys.push_back(key);
      request.page_token = page->next_page_token;
    } while (!request.page_token.empty());
    std::sort(keys.begin(), keys.end());
    EXPECT_EQ(keys, KeysOf(*whole));
  }
}

TEST_F(HubBucketTest, TheTokenGoesToTheHubAlone) {
  const auto bucket = Opened();
  const auto got = Get(*bucket, {.key = "a.npz"});
  ASSERT_TRUE(got.ok()) << got.status().ToString();
  EXPECT_EQ(got->bytes.view(), "0123456789");
  EXPECT_EQ(got->object.version, "l1");
  for (const TestRequest& request : hub.requests()) {
    EXPECT_EQ(FindHeader(request.headers, "authorization"), "Bearer hf_secret");
  }
  ASSERT_EQ(files.requests().size(), 1u);
  const TestRequest read = files.requests().front();
  EXPECT_FALSE(FindHeader(read.headers, "authorization"));
  EXPECT_TRUE(FindHeader(read.headers, "range"));
}

TEST_F(HubBucketTest, ARevisionIsAskedForOnce) {
  const auto bucket = Opened();
  ASSERT_TRUE(bucket->List({}).ok());
  answers["/api/models/org/m/revision/main"].body =
      R"({"sha": ")" + std::string(40, 'b') + R"("})";
  EXPECT_TRUE(Get(*bucket, {.key = "a.npz", .version = "l1"}).ok());
  EXPECT_EQ(Get(*bucket, {.key = "a.npz", .version = "l2"}).status().code(),
            StatusCode::kDataLoss);
  // A commit hash needs no request to be resolved.
  const auto by_commit = Opened("hf://org/m@" + kCommit);
  const size_t before = hub.requests().size();
  EXPECT_TRUE(by_commit->List({}).ok());
  EXPECT_EQ(hub.requests().size(), before + 1);
}

TEST_F(HubBucketTest, RevisionsAreEscaped) {
  answers["/api/datasets/org/m/revision/refs%2Fpr%2F1"].body =
      R"({"sha": ")" + kCommit + R"("})";
  answers["/api/datasets/org/m/tree/" + kCommit + "?recursive=true"].body =
      R"([{"type": "file", "oid": "g", "size": 10, "path": "x y#?%"}])";
  answers["/datasets/org/m/resolve/" + kCommit + "/x%20y%23%3F%25"] =
      Redirect();
  const auto bucket = Opened("hf://datasets/org/m@refs/pr/1");
  EXPECT_TRUE(Get(*bucket, {.key = "x y#?%"}).ok());
}

TEST_F(HubBucketTest, AnotherSizeThanTheListedOneIsDataLoss) {
  answers[Tree()].body =
      R"([{"type": "file", "oid": "g", "size": 11, "path": "a.npz"}])";
  const Status status = Get(*Opened(), {.key = "a.npz"}).status();
  EXPECT_EQ(status.code(), StatusCode::kDataLoss);
  EXPECT_THAT(status.ToString(), HasSubstr("10 bytes, want the 11"));
}

TEST_F(HubBucketTest, PagesOfTreesFollowEachOtherOnOneServer) {
  answers[Tree()].body = R"([{"type": "file", "size": 1, "path": "a"}])";
  answers[Tree()].headers = {
      {"Link", "<" + hub.Url(Tree() + "&cursor=2") + ">; rel=\"next\""}};
  answers[Tree() + "&cursor=2"].body =
      R"([{"type": "file", "size": 1, "path": "b"}])";
  EXPECT_THAT(KeysOf(*Opened()->List({})), ElementsAre("a", "b"));
  answers[Tree()].headers = {
      {"Link", "<" + files.Url("/x") + ">; rel=\"next\""}};
  EXPECT_EQ(ListStatus().code(), StatusCode::kDataLoss);
  EXPECT_TRUE(files.requests().empty());
  answers[Tree()].headers = {
      {"Link", "<" + hub.Url(Tree()) + ">; rel=\"next\""}};
  EXPECT_EQ(ListStatus().code(), StatusCode::kDataLoss);
}

TEST_F(HubBucketTest, AnswersThatMakeNoSenseAreDataLoss) {
  const std::string entry =
      R"({"type": "file", "oid": "g", "size": 1, "path": )";
  for (const std::string& tree :
       {std::string(), std::string("{}"), std::string("[1]"),
        std::string(R"([{"type": "file", "size": 1}])"),
        std::string(R"([{"type": "file", "path": "a"}])"),
        std::string(R"([{"type": "file", "size": -1, "path": "a"}])"),
        std::string(
            R"([{"type": "file", "size": 18446744073709551615, "path": "a"}])"),
        "[" + entry + R"("../a"}])", "[" + entry + R"("/a"}])",
        "[" + entry + R"("a/../b"}])", "[" + entry + R"("a//b"}])",
        "[" + entry + R"("a\u0000b"}])",
        "[" + entry + "\"" + std::string(2000, 'a') + "\"}]",
        "[" + entry + R"("a"}, )" + entry + R"("a"}])"}) {
    answers[Tree()].body = tree;
    EXPECT_EQ(ListStatus().code(), StatusCode::kDataLoss) << tree;
  }
  for (const char* revision :
       {"", "[]", "{}", R"({"sha": "../../x"})", R"({"sha": 7})"}) {
    answers["/api/models/org/m/revision/main"].body = revision;
    EXPECT_EQ(ListStatus().code(), StatusCode::kDataLoss) << revision;
  }
}

TEST_F(HubBucketTest, RefusalsSayWhatToDo) {
  struct Case {
    int status;
    const char* error;
    StatusCode code;
    const char* text;
  };
  const Case cases[] = {
      {403, "GatedRepo", StatusCode::kPermissionDenied, "accept its terms at"},
      {404, "RevisionNotFound", StatusCode::kNotFound, "no revision \"main\""},
      {404, "RepoNotFound", StatusCode::kNotFound, "no such repository, or"},
      {404, "", StatusCode::kNotFound, "repository or revision, or it is"},
      {401, "", StatusCode::kPermissionDenied, "wrong, expired"},
      {503, "", StatusCode::kUnavailable, "HTTP 503"},
      {418, "", StatusCode::kFailedPrecondition, "HTTP 418"}};
  for (const Case& one : cases) {
    answers["/api/models/org/m/revision/main"] = Refusal(one.status, one.error);
    const Status status = ListStatus();
    EXPECT_EQ(status.code(), one.code) << one.status << one.error;
    EXPECT_THAT(status.ToString(), HasSubstr(one.text));
    EXPECT_THAT(status.ToString(), HasSubstr("hf://org/m"));
    EXPECT_THAT(status.ToString(), Not(HasSubstr("hf_secret")));
  }
  token = "";
  answers["/api/models/org/m/revision/main"] = Refusal(401, "");
  EXPECT_EQ(ListStatus().code(), StatusCode::kNotFound);
  EXPECT_THAT(ListStatus().ToString(), HasSubstr("no token was found"));
}

TEST_F(HubBucketTest, ARefusalIsAskedForOnceAndATroubleAgain) {
  answers["/api/models/org/m/revision/main"] = Refusal(404, "RepoNotFound");
  auto bucket = Opened();
  EXPECT_FALSE(bucket->List({}).ok());
  EXPECT_FALSE(bucket->Head("a.npz").ok());
  EXPECT_EQ(hub.requests().size(), 1u);
  bucket = Opened();
  answers["/api/models/org/m/revision/main"] = Refusal(503, "");
  EXPECT_FALSE(bucket->List({}).ok());
  SetUp();
  answers["/api/models/org/m/revision/main"] = TestAnswer();
  answers["/api/models/org/m/revision/main"].body =
      R"({"sha": ")" + kCommit + R"("})";
  EXPECT_TRUE(bucket->List({}).ok());
}

TEST_F(HubBucketTest, AFileThatIsRefusedMayBeGated) {
  answers["/org/m/resolve/" + kCommit + "/a.npz"] = Refusal(403, "GatedRepo");
  const Status status = Get(*Opened(), {.key = "a.npz"}).status();
  EXPECT_EQ(status.code(), StatusCode::kPermissionDenied);
  EXPECT_THAT(status.ToString(), HasSubstr("accept its terms at"));
  EXPECT_THAT(status.ToString(), HasSubstr("set HF_TOKEN"));
}

TEST_F(HubBucketTest, OfflineAsksNobody) {
  const Status status = Opened("hf://org/m", "1")->List({}).status();
  EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(status.ToString(), HasSubstr("HF_HUB_OFFLINE"));
  EXPECT_TRUE(hub.requests().empty());
}

TEST_F(HubBucketTest, NothingIsWritten) {
  constexpr StatusCode kWant = StatusCode::kUnimplemented;
  const auto bucket = Opened();
  const std::string keys[] = {"k"};
  EXPECT_FALSE(bucket->traits().can_write);
  EXPECT_EQ(bucket->Put("k", {}).status().code(), kWant);
  EXPECT_EQ(bucket->StartUpload("k").status().code(), kWant);
  EXPECT_EQ(bucket->Delete("k").code(), kWant);
  EXPECT_EQ(bucket->DeleteAll(keys).code(), kWant);
  EXPECT_EQ(bucket->Copy("k", "l").status().code(), kWant);
  EXPECT_TRUE(hub.requests().empty());
}

TEST(HubListing, TheNextPageIsTheOneThatSaysSo) {
  EXPECT_EQ(NextOfLink("<https://h/a?b=c>; rel=\"next\""), "https://h/a?b=c");
  EXPECT_EQ(NextOfLink("</a>; rel=\"prev\", </b>; x=y; rel=\"next\""), "/b");
  for (const char* link :
       {"", "</a>", "</a>; rel=\"prev\"", "<", "<a", ";,<>"}) {
    EXPECT_EQ(NextOfLink(link), "") << link;
  }
}

}  // namespace
}  // namespace holdfast
