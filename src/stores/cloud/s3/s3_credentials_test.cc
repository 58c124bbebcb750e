#include "stores/cloud/s3/s3_credentials.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <atomic>
#include <fstream>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "stores/cloud/s3/credential_process.h"
#include "stores/cloud/s3/credential_sources.h"
#include "twins/http_test_server.h"

namespace holdfast {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

constexpr int64_t kMinuteNs = 60'000'000'000;

std::string SavedFile(const std::string& name, const std::string& text) {
  const std::string path = testing::TempDir() + "s3_credentials_test_" + name;
  std::ofstream(path) << text;
  return path;
}

// Finds credentials in an environment of its own.
class FindCredentialsTest : public testing::Test {
 protected:
  Result<AwsCredentials> Find(const std::string& profile = "",
                              bool anonymous = false) {
    std::map<std::string, std::string> all = variables_;
    all["AWS_CONFIG_FILE"] = SavedFile("config", config_);
    all["AWS_SHARED_CREDENTIALS_FILE"] = SavedFile("keys", credentials_);
    const auto config = ReadAwsConfig(profile, [all](const std::string& name) {
      const auto at = all.find(name);
      return at == all.end() ? std::string() : at->second;
    });
    if (!config.ok()) return config.status();
    HttpOptions options;
    options.attempt_count_max = 1;
    const auto source = FindCredentialSource(
        *config, anonymous, std::make_shared<HttpClient>(options));
    if (!source.ok()) return source.status();
    return (*source)();
  }

  std::string KeyIdOf(const std::string& profile = "") {
    const auto found = Find(profile);
    return found.ok() ? found->keys.access_key_id : found.status().ToString();
  }

  std::map<std::string, std::string> variables_{
      {"AWS_EC2_METADATA_DISABLED", "true"}};
  std::string config_, credentials_;
};

TEST_F(FindCredentialsTest, NoneSaysWhereItLooked) {
  const auto found = Find();
  EXPECT_EQ(found.status().code(), StatusCode::kPermissionDenied);
  EXPECT_THAT(
      found.status().ToString(),
      AllOf(HasSubstr("AWS_ACCESS_KEY_ID"), HasSubstr("profile default in "),
            HasSubstr("AWS_EC2_METADATA_DISABLED"), HasSubstr("anonymous")));
  EXPECT_TRUE(Find("", true)->is_anonymous());
}

TEST_F(FindCredentialsTest, TheUsualOrder) {
  variables_["AWS_WEB_IDENTITY_TOKEN_FILE"] = "/no-such-token";
  EXPECT_THAT(KeyIdOf(), HasSubstr("AWS_ROLE_ARN is not"));
  config_ =
      "[default]\ncredential_process = echo '{\"AccessKeyId\": "
      "\"PROCESS\", \"SecretAccessKey\": \"s\"}'\n";
  EXPECT_EQ(KeyIdOf(), "PROCESS");
  config_ += "aws_access_key_id = CONFIG\naws_secret_access_key = s\n";
  EXPECT_EQ(KeyIdOf(), "CONFIG");
  credentials_ =
      "[default]\naws_access_key_id = FILE\naws_secret_access_key = s\n"
      "aws_session_token = t\n"
      "[other]\naws_access_key_id = OTHER\naws_secret_access_key = s\n";
  EXPECT_EQ(KeyIdOf(), "FILE");
  EXPECT_EQ(Find()->keys.session_token, "t");
  EXPECT_THAT(Find()->source, HasSubstr("profile default in "));
  variables_["AWS_ACCESS_KEY_ID"] = "VARIABLE";
  EXPECT_THAT(KeyIdOf(), HasSubstr("AWS_SECRET_ACCESS_KEY is not"));
  variables_["AWS_SECRET_ACCESS_KEY"] = "s";
  EXPECT_EQ(KeyIdOf(), "VARIABLE");
  // A profile from a variable does not hide the variables' keys; a profile from
  // an option does.
  variables_["AWS_PROFILE"] = "other";
  EXPECT_EQ(KeyIdOf(), "VARIABLE");
  EXPECT_EQ(KeyIdOf("other"), "OTHER");
}

TEST_F(FindCredentialsTest, ProfilesThatContradictThemselves) {
  config_ =
      "[default]\naws_access_key_id = A\n"
      "[profile sso]\nsso_session = s\n"
      "[profile circle]\nrole_arn = r\nsource_profile = back\n"
      "[profile back]\nrole_arn = r\nsource_profile = circle\n"
      "[profile lost]\nrole_arn = r\nsource_profile = none\n"
      "[profile bare]\nrole_arn = r\n"
      "[profile mfa]\nrole_arn = r\nmfa_serial = m\n"
      "[profile odd]\nrole_arn = r\ncredential_source = Moon\n"
      "[profile two]\nrole_arn = r\ncredential_source = Environment\n"
      "source_profile = sso\n";
  EXPECT_THAT(KeyIdOf(), HasSubstr("must both be in one file"));
  EXPECT_THAT(KeyIdOf("sso"),
              AllOf(HasSubstr("PERMISSION_DENIED"), HasSubstr("SSO"),
                    HasSubstr("export-credentials")));
  EXPECT_THAT(KeyIdOf("circle"), HasSubstr("leads back"));
  EXPECT_THAT(KeyIdOf("lost"), HasSubstr("none does not exist"));
  EXPECT_THAT(KeyIdOf("bare"), HasSubstr("needs source_profile"));
  EXPECT_THAT(KeyIdOf("mfa"), HasSubstr("mfa_serial"));
  EXPECT_THAT(KeyIdOf("odd"), HasSubstr("\"Moon\" is not known"));
  EXPECT_THAT(KeyIdOf("two"), HasSubstr("exclude"));
}

constexpr char kStsAnswer[] =
    "<R><AssumeRoleResult><Credentials><AccessKeyId>ASIAROLE</AccessKeyId>"
    "<SecretAccessKey>role-secret</SecretAccessKey>"
    "<SessionToken>role-token</SessionToken>"
    "<Expiration>2033-05-18T03:33:20Z</Expiration></Credentials>"
    "</AssumeRoleResult></R>";

TEST_F(FindCredentialsTest, RolesAreAssumedWithTheKeysOfTheirSource) {
  HttpTestServer server(
      [](const TestRequest&) { return TestAnswer{.body = kStsAnswer}; });
  variables_["AWS_ENDPOINT_URL_STS"] = server.Url("");
  variables_["AWS_REGION"] = "eu-west-1";
  config_ =
      "[profile a]\nrole_arn = arn:aws:iam::1:role/r+1\n"
      "source_profile = base\nexternal_id = e x\n"
      "duration_seconds = 900\nrole_session_name = me\n"
      "[profile base]\naws_access_key_id = BASE\n"
      "aws_secret_access_key = base-secret\n"
      "[profile twice]\nrole_arn = arn:2\nsource_profile = a\n";
  const auto found = Find("a");
  ASSERT_TRUE(found.ok()) << found.status().ToString();
  EXPECT_EQ(found->keys.access_key_id, "ASIAROLE");
  EXPECT_EQ(found->keys.session_token, "role-token");
  EXPECT_EQ(found->expires_ns, 2'000'000'000'000'000'000);
  EXPECT_THAT(found->source, HasSubstr("arn:aws:iam::1:role/r+1"));
  const TestRequest request = server.requests().at(0);
  EXPECT_EQ(request.method, "POST");
  EXPECT_EQ(request.body,
            "Action=AssumeRole&Version=2011-06-15&RoleArn=arn%3Aaws%3Aiam%3A%3A"
            "1%3Arole%2Fr%2B1&RoleSessionName=me&DurationSeconds=900&"
            "ExternalId=e%20x");
  const std::string signature(
      FindHeader(request.headers, "authorization").value_or(""));
  EXPECT_THAT(signature, AllOf(HasSubstr("Credential=BASE/"),
                               HasSubstr("/eu-west-1/sts/aws4_request")));
  // A role that depends on another role uses that role's keys for the request.
  ASSERT_TRUE(Find("twice").ok());
  EXPECT_THAT(std::string(*FindHeader(server.requests().at(2).headers,
                                      "authorization")),
              HasSubstr("Credential=ASIAROLE/"));
}

TEST_F(FindCredentialsTest, WebIdentitiesSendTheirTokenUnsigned) {
  bool refuses = false;
  HttpTestServer server([&](const TestRequest&) {
    if (refuses) {
      return TestAnswer{.status = 403,
                        .body =
                            "<ErrorResponse><Error><Code>AccessDenied"
                            "</Code><Message>Not authorized</Message>"
                            "</Error></ErrorResponse>"};
    }
    return TestAnswer{.body = kStsAnswer};
  });
  variables_["AWS_ENDPOINT_URL_STS"] = server.Url("");
  variables_["AWS_WEB_IDENTITY_TOKEN_FILE"] = SavedFile("token", "to.k+n\n");
  variables_["AWS_ROLE_ARN"] = "arn:web";
  variables_["AWS_ROLE_SESSION_NAME"] = "pod";
  const auto found = Find();
  ASSERT_TRUE(found.ok()) << found.status().ToString();
  EXPECT_EQ(found->keys.access_key_id, "ASIAROLE");
  const TestRequest request = server.requests().at(0);
  EXPECT_EQ(request.body,
            "Action=AssumeRoleWithWebIdentity&Version=2011-06-15&RoleArn="
            "arn%3Aweb&RoleSessionName=pod&WebIdentityToken=to.k%2Bn");
  EXPECT_FALSE(FindHeader(request.headers, "authorization").has_value());
  refuses = true;
  const auto refused = Find();
  EXPECT_EQ(refused.status().code(), StatusCode::kPermissionDenied);
  EXPECT_THAT(refused.status().ToString(),
              AllOf(HasSubstr("arn:web"), HasSubstr("AccessDenied"),
                    HasSubstr("Not authorized"), Not(HasSubstr("to.k"))));
}

constexpr char kJsonAnswer[] =
    "{\"AccessKeyId\": \"ASIAJSON\", \"SecretAccessKey\": \"json-secret\", "
    "\"Token\": \"json-token\", \"Expiration\": \"2033-05-18T03:33:20Z\"}";

TEST_F(FindCredentialsTest, ContainersAreAskedWithTheirToken) {
  HttpTestServer server(
      [](const TestRequest&) { return TestAnswer{.body = kJsonAnswer}; });
  variables_["AWS_CONTAINER_CREDENTIALS_FULL_URI"] = server.Url("/creds?a=b");
  variables_["AWS_CONTAINER_AUTHORIZATION_TOKEN"] = "from-variable";
  ASSERT_EQ(KeyIdOf(), "ASIAJSON");
  EXPECT_EQ(server.requests().at(0).target, "/creds?a=b");
  EXPECT_EQ(FindHeader(server.requests().at(0).headers, "authorization"),
            "from-variable");
  // The file is read each time, because it may change.
  variables_["AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"] =
      SavedFile("container-token", "from-file");
  ASSERT_EQ(KeyIdOf(), "ASIAJSON");
  EXPECT_EQ(FindHeader(server.requests().at(1).headers, "authorization"),
            "from-file");
  SavedFile("container-token", "two\nlines");
  EXPECT_THAT(KeyIdOf(),
              AllOf(HasSubstr("more than one line"), Not(HasSubstr("two"))));
  // No token is sent to unknown hosts without TLS.
  variables_["AWS_CONTAINER_CREDENTIALS_FULL_URI"] = "http://192.0.2.1/creds";
  EXPECT_THAT(KeyIdOf(), HasSubstr("it gets no token"));
  EXPECT_EQ(server.requests().size(), 2u);
}

TEST_F(FindCredentialsTest, InstancesAreAskedByVersionTwo) {
  variables_.erase("AWS_EC2_METADATA_DISABLED");
  HttpTestServer server([](const TestRequest& request) {
    if (request.method == "PUT") return TestAnswer{.body = "session"};
    if (FindHeader(request.headers, "x-aws-ec2-metadata-token") != "session") {
      return TestAnswer{.status = 401};
    }
    const bool is_list = request.target.ends_with("/security-credentials/");
    return TestAnswer{.body = is_list ? "my role\n" : kJsonAnswer};
  });
  variables_["AWS_EC2_METADATA_SERVICE_ENDPOINT"] = server.Url("/");
  const auto found = Find();
  ASSERT_TRUE(found.ok()) << found.status().ToString();
  EXPECT_EQ(found->keys.session_token, "json-token");
  EXPECT_EQ(server.requests().at(0).target, "/latest/api/token");
  EXPECT_EQ(server.requests().at(2).target,
            "/latest/meta-data/iam/security-credentials/my%20role");
  EXPECT_THAT(found->source, HasSubstr("role my role"));
}

TEST_F(FindCredentialsTest, InstancesWithoutARoleHaveNone) {
  variables_.erase("AWS_EC2_METADATA_DISABLED");
  HttpTestServer server([](const TestRequest& request) {
    if (request.method == "PUT") return TestAnswer{.body = "session"};
    return TestAnswer{.status = 404};
  });
  variables_["AWS_EC2_METADATA_SERVICE_ENDPOINT"] = server.Url("");
  const auto found = Find();
  EXPECT_EQ(found.status().code(), StatusCode::kPermissionDenied);
  EXPECT_THAT(found.status().ToString(),
              AllOf(HasSubstr("no S3 credentials are found"),
                    HasSubstr("the instance has no role: status 404")));
}

TEST(ParseJsonCredentialsTest, WhatIsMissingIsSaid) {
  const auto code_of = [](std::string_view json) {
    return ParseJsonCredentials(json, "here").status().code();
  };
  EXPECT_EQ(code_of("{"), StatusCode::kDataLoss);
  EXPECT_EQ(code_of("[]"), StatusCode::kDataLoss);
  EXPECT_EQ(code_of("{\"AccessKeyId\": \"a\"}"), StatusCode::kPermissionDenied);
  EXPECT_EQ(code_of("{\"AccessKeyId\": 1, \"SecretAccessKey\": \"s\"}"),
            StatusCode::kPermissionDenied);
  EXPECT_EQ(code_of("{\"AccessKeyId\": \"a\", \"SecretAccessKey\": \"s\", "
                    "\"Expiration\": \"soon\"}"),
            StatusCode::kDataLoss);
  EXPECT_THAT(
      ParseJsonCredentials("{\"Code\": \"AssumeRoleUnauthorizedAccess\"}", "h")
          .status()
          .ToString(),
      HasSubstr("AssumeRoleUnauthorizedAccess"));
}

TEST(CredentialProcessTest, CommandsAreSplitAsByAShell) {
  EXPECT_THAT(*SplitCommand(" a  'b c' \"d \\\"e\\\" \\n\" f\\ g '' h'i'\"j\""),
              ElementsAre("a", "b c", "d \"e\" \\n", "f g", "", "hij"));
  EXPECT_FALSE(SplitCommand("a 'b").ok());
  EXPECT_FALSE(SplitCommand("  ").ok());
}

TEST(CredentialProcessTest, FailuresDoNotTellWhatWasPrinted) {
  using std::chrono::seconds;
  EXPECT_EQ(*RunCredentialProcess("sh -c 'printf x; printf y'", seconds(60)),
            "xy");
  const auto failed =
      RunCredentialProcess("sh -c 'echo hidden; exit 3'", seconds(60));
  EXPECT_EQ(failed.status().code(), StatusCode::kPermissionDenied);
  EXPECT_THAT(
      failed.status().ToString(),
      AllOf(HasSubstr("ended with status 3"), Not(HasSubstr("hidden"))));
  EXPECT_EQ(
      RunCredentialProcess("/no/such/program", seconds(60)).status().code(),
      StatusCode::kPermissionDenied);
  EXPECT_EQ(RunCredentialProcess("sleep 1000", seconds(0)).status().code(),
            StatusCode::kDeadlineExceeded);
  EXPECT_EQ(RunCredentialProcess("yes", seconds(60)).status().code(),
            StatusCode::kDataLoss);
}

TEST(AwsCredentialsTest, LittleIsToldOfKeyIds) {
  const auto tail = [](const std::string& id) {
    return AwsCredentials{{id, "s", ""}}.key_id_tail();
  };
  EXPECT_EQ(tail("AKIAIOSFODNN7EXAMPLE"), "MPLE");
  EXPECT_EQ(tail("abcdef"), "ef");
  EXPECT_EQ(tail("ab"), "");
  EXPECT_EQ(tail(""), "");
}

// Counts its calls. Each call returns keys that are valid for an hour.
struct CountingSource {
  std::atomic<int64_t> now_ns{kMinuteNs};
  std::atomic<int> calls{0};
  std::atomic<bool> fails{false};

  CredentialSource Source() {
    return [this]() -> Result<AwsCredentials> {
      const int call = ++calls;
      if (fails) return UnavailableError("nobody answers");
      return AwsCredentials{{"K" + std::to_string(call), "s", "t"},
                            now_ns + 60 * kMinuteNs,
                            "test"};
    };
  }
  S3Credentials::Clock Clock() {
    return [this] { return now_ns.load(); };
  }
};

TEST(S3CredentialsTest, AreRenewedBeforeTheyExpire) {
  CountingSource counting;
  S3Credentials credentials(counting.Source(), counting.Clock());
  EXPECT_EQ(credentials.Current(), nullptr);
  EXPECT_EQ((*credentials.Get())->keys.access_key_id, "K1");
  counting.now_ns += 49 * kMinuteNs;
  EXPECT_EQ((*credentials.Get())->keys.access_key_id, "K1");
  counting.now_ns += 2 * kMinuteNs;
  EXPECT_EQ((*credentials.Get())->keys.access_key_id, "K2");
  EXPECT_EQ(credentials.Current()->keys.access_key_id, "K2");
  // While the old keys are valid, a failed renewal is ignored, and it is not
  // retried immediately.
  counting.fails = true;
  counting.now_ns += 51 * kMinuteNs;
  EXPECT_EQ((*credentials.Get())->keys.access_key_id, "K2");
  EXPECT_EQ((*credentials.Get())->keys.access_key_id, "K2");
  EXPECT_EQ(counting.calls, 3);
  counting.now_ns += 8 * kMinuteNs;
  EXPECT_EQ(credentials.Get().status().code(), StatusCode::kUnavailable);
  counting.fails = false;
  EXPECT_TRUE(credentials.Get().ok());
}

TEST(S3CredentialsTest, AreFetchedOnceByManyThreads) {
  CountingSource counting;
  S3Credentials credentials(counting.Source(), counting.Clock());
  const auto first_of_all = [&](auto call) {
    std::vector<std::thread> threads;
    for (int i = 0; i < 8; ++i) threads.emplace_back(call);
    for (std::thread& thread : threads) thread.join();
  };
  first_of_all([&] { EXPECT_TRUE(credentials.Get().ok()); });
  EXPECT_EQ(counting.calls, 1);
  const auto stale = credentials.Current();
  first_of_all([&] { EXPECT_NE(*credentials.Renew(stale), stale); });
  EXPECT_EQ(counting.calls, 2);
}

}  // namespace
}  // namespace holdfast
