#include "stores/cloud/gcs/gcs_credentials.h"

#include <gmock/gmock.h>
#include <openssl/bn.h>
#include <openssl/core_names.h>
#include <openssl/evp.h>
#include <openssl/pem.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>

#include "conformance/bucket_calls.h"
#include "twins/gcs_fake_process.h"
#include "twins/http_test_server.h"

namespace holdfast {
namespace {

using conformance::PutText;
using testing::HasSubstr;
using testing::Not;
using SecretJson = nlohmann::json;

constexpr int64_t kSecondNs = 1'000'000'000;

// The test's own RSA key: the private key in PEM, and the modulus in the form
// that the fake needs.
struct TestKey {
  std::string pem;
  std::string modulus_hex;
};

const TestKey& SharedKey() {
  static const TestKey key = [] {
    EVP_PKEY* pair = EVP_RSA_gen(2048);
    BIO* bio = BIO_new(BIO_s_mem());
    PEM_write_bio_PrivateKey(bio, pair, nullptr, nullptr, 0, nullptr, nullptr);
    char* text = nullptr;
    const long size = BIO_get_mem_data(bio, &text);
    BIGNUM* modulus = nullptr;
    EVP_PKEY_get_bn_param(pair, OSSL_PKEY_PARAM_RSA_N, &modulus);
    char* hex = BN_bn2hex(modulus);
    TestKey made = {std::string(text, static_cast<size_t>(size)), hex};
    OPENSSL_free(hex);
    BN_free(modulus);
    BIO_free(bio);
    EVP_PKEY_free(pair);
    return made;
  }();
  return key;
}

class GcsCredentialsTest : public testing::Test {
 protected:
  void SetUp() override {
    fake_.Tell("reset", "{}");
    fake_.Tell("tokens", R"({"require":true})");
    folder_ = testing::TempDir() + "gcs_credentials";
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override {
    fake_.Tell("reset", "{}");
    std::filesystem::remove_all(folder_);
  }

  std::string WriteFile(const std::string& name, const std::string& text) {
    const std::string path = folder_ + "/" + name;
    std::ofstream(path) << text;
    return path;
  }

  SecretJson ServiceAccount() {
    const SecretJson known = {{"email", "robot@project.example"},
                              {"modulus", SharedKey().modulus_hex},
                              {"exponent", 65537}};
    fake_.Tell("service_account", known.dump());
    return {{"type", "service_account"},
            {"project_id", "robots-project"},
            {"private_key_id", "k1"},
            {"private_key", SharedKey().pem},
            {"client_email", "robot@project.example"},
            {"token_uri", fake_.url() + "/token"}};
  }

  SecretJson User() {
    fake_.Tell("refresh_token",
               R"({"token":"1//0refresh-SECRET","client_id":"client"})");
    return {{"type", "authorized_user"},
            {"client_id", "client"},
            {"client_secret", "client-SECRET"},
            {"refresh_token", "1//0refresh-SECRET"},
            {"token_uri", fake_.url() + "/token"}};
  }

  SecretJson Federated(const SecretJson& source) {
    fake_.Tell("refresh_token", R"({"token":"subject-SECRET"})");
    return {{"type", "external_account"},
            {"audience", "//iam.googleapis.com/projects/1/pool"},
            {"subject_token_type", "urn:ietf:params:oauth:token-type:jwt"},
            {"token_url", fake_.url() + "/v1/token"},
            {"credential_source", source}};
  }

  std::string ImpersonationUrl() {
    return fake_.url() +
           "/v1/projects/-/serviceAccounts/target@project.example"
           ":generateAccessToken";
  }

  // Opens a bucket that is not treated as an emulator.
  std::shared_ptr<Bucket> Open(std::map<std::string, std::string> values) {
    values.emplace("TENSORSTORE_GCS_HTTP_URL", fake_.url());
    auto bucket =
        OpenGcsBucketIn("test", QuickOptions(), EnvironmentOf(values));
    EXPECT_TRUE(bucket.ok()) << bucket.status().ToString();
    return *bucket;
  }
  std::shared_ptr<Bucket> OpenWith(const SecretJson& file) {
    return Open({{"GOOGLE_APPLICATION_CREDENTIALS",
                  WriteFile("adc.json", file.dump())}});
  }

  GcsFake& fake_ = GcsFake::Shared();
  std::string folder_;
};

TEST_F(GcsCredentialsTest, AServiceAccountSignsForItsToken) {
  auto bucket = OpenWith(ServiceAccount());
  const auto put = PutText(*bucket, "c/a", "x");
  ASSERT_TRUE(put.ok()) << put.status().ToString();
  ASSERT_TRUE(PutText(*bucket, "c/b", "x").ok());
  EXPECT_EQ(fake_.Count("tokens"), 1);
  const auto access = bucket->Access();
  ASSERT_TRUE(access.ok());
  EXPECT_THAT(access->credentials,
              HasSubstr("service account robot@project.example from "
                        "GOOGLE_APPLICATION_CREDENTIALS ("));
  EXPECT_EQ(access->endpoint, fake_.url());
  EXPECT_EQ(access->region, "nowhere");
  fake_.Tell("deny", R"({"permissions":["storage.buckets.get"]})");
  EXPECT_EQ(bucket->Access()->region, "");
}

TEST_F(GcsCredentialsTest, ATokenThatTheServerRefusesIsFetchedAnewOnce) {
  auto bucket = OpenWith(ServiceAccount());
  ASSERT_TRUE(PutText(*bucket, "c/a", "x").ok());
  fake_.Tell("tokens", R"({"expire":true})");
  ASSERT_TRUE(PutText(*bucket, "c/a", "y", Condition::None()).ok());
  EXPECT_EQ(fake_.Count("tokens"), 2);
  fake_.Tell("tokens", R"({"seconds":-1,"expire":true})");  // expired already
  const Status status = PutText(*bucket, "c/a", "z").status();
  EXPECT_EQ(status.code(), StatusCode::kPermissionDenied);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("missing, wrong or expired (used: service account"));
}

TEST_F(GcsCredentialsTest, UsersRefreshTheirs) {
  auto bucket = OpenWith(User());
  const auto put = PutText(*bucket, "c/a", "x");
  EXPECT_TRUE(put.ok()) << put.status().ToString();
}

TEST_F(GcsCredentialsTest, GcloudsLoginIsFound) {
  WriteFile("application_default_credentials.json", User().dump());
  auto bucket = Open({{"CLOUDSDK_CONFIG", folder_}});
  EXPECT_TRUE(PutText(*bucket, "c/a", "x").ok());
  EXPECT_THAT(bucket->Access()->credentials, HasSubstr("gcloud's login"));
}

TEST_F(GcsCredentialsTest, WorkloadsExchangeTheirs) {
  const std::string plain = WriteFile("subject", "subject-SECRET\n");
  auto bucket = OpenWith(Federated({{"file", plain}}));
  auto put = PutText(*bucket, "c/a", "x");
  EXPECT_TRUE(put.ok()) << put.status().ToString();
  const std::string wrapped =
      WriteFile("subject.json", R"({"id":"subject-SECRET"})");
  SecretJson file = Federated(
      {{"file", wrapped},
       {"format", {{"type", "json"}, {"subject_token_field_name", "id"}}}});
  file["service_account_impersonation_url"] = ImpersonationUrl();
  bucket = OpenWith(file);
  put = PutText(*bucket, "c/a", "x");
  EXPECT_TRUE(put.ok()) << put.status().ToString();
  EXPECT_THAT(bucket->Access()->credentials,
              HasSubstr("target@project.example"));
}

TEST_F(GcsCredentialsTest, AccountsAreImpersonated) {
  auto bucket =
      OpenWith({{"type", "impersonated_service_account"},
                {"service_account_impersonation_url", ImpersonationUrl()},
                {"source_credentials", User()}});
  const auto put = PutText(*bucket, "c/a", "x");
  EXPECT_TRUE(put.ok()) << put.status().ToString();
  EXPECT_EQ(fake_.Count("tokens"), 2);
}

TEST_F(GcsCredentialsTest, MachinesAskTheirMetadataServer) {
  auto bucket = Open({{"GCE_METADATA_HOST", fake_.url().substr(7)},
                      {"NO_GCE_CHECK", "false"}});
  const auto put = PutText(*bucket, "c/a", "x");
  EXPECT_TRUE(put.ok()) << put.status().ToString();
  EXPECT_THAT(bucket->Access()->credentials,
              HasSubstr("vm@project.iam.gserviceaccount.com"));
}

TEST_F(GcsCredentialsTest, WithoutAnyTheyAreAnonymousAndSayWhereTheyLooked) {
  auto bucket = Open({{"HOME", folder_}});
  const Status status = PutText(*bucket, "c/a", "x").status();
  EXPECT_EQ(status.code(), StatusCode::kPermissionDenied);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("GOOGLE_APPLICATION_CREDENTIALS is not set"));
  EXPECT_THAT(std::string(status.message()), HasSubstr(folder_));
  fake_.Tell("tokens", R"({"require":false})");
  EXPECT_TRUE(PutText(*bucket, "c/a", "x").ok());
  EXPECT_EQ(fake_.Count("with_token"), 0);
}

TEST_F(GcsCredentialsTest, TheTestingTokenComesFirst) {
  fake_.Tell("tokens", R"({"add":["abc"]})");
  auto bucket = Open({{"GOOGLE_AUTH_TOKEN_FOR_TESTING", "abc"},
                      {"GOOGLE_APPLICATION_CREDENTIALS", "/no/such/file"}});
  EXPECT_TRUE(PutText(*bucket, "c/a", "x").ok());
  auto broken = Open({{"GOOGLE_APPLICATION_CREDENTIALS", "/no/such/file"}});
  EXPECT_THAT(PutText(*broken, "c/a", "x").status().ToString(),
              HasSubstr("/no/such/file"));
}

TEST_F(GcsCredentialsTest, RealTokensDoNotGoOverPlainHttpToOthers) {
  const std::string path = WriteFile("adc.json", ServiceAccount().dump());
  RemoteOptions options = QuickOptions();
  options.endpoint = "http://storage.example.test";
  auto bucket = *OpenGcsBucketIn(
      "test", options,
      EnvironmentOf({{"GOOGLE_APPLICATION_CREDENTIALS", path}}));
  EXPECT_EQ(bucket->Head("a").status().code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(fake_.Count("tokens"), 0);
}

// Provokes every failure along the way; no message may contain a secret.
TEST_F(GcsCredentialsTest, NoMessageTellsASecret) {
  std::vector<SecretJson> files;
  SecretJson wrong = User();
  wrong["refresh_token"] = "1//0wrong-SECRET";
  files.push_back(wrong);
  wrong = ServiceAccount();
  wrong["client_email"] = "stranger@project.example";
  files.push_back(wrong);
  wrong = ServiceAccount();
  wrong["private_key"] = "-----BEGIN PRIVATE KEY-----\nSECRET\n";
  files.push_back(wrong);
  wrong = ServiceAccount();
  wrong["token_uri"] = "http://elsewhere.example.test/token?SECRET";
  files.push_back(wrong);
  wrong = Federated({{"file", folder_ + "/none"}});
  files.push_back(wrong);
  wrong = Federated({{"url", fake_.url() + "/none?SECRET"}});
  files.push_back(wrong);
  wrong = Federated({{"environment_id", "aws1"}, {"url", "SECRET"}});
  files.push_back(wrong);
  wrong = {{"type", "impersonated_service_account"},
           {"service_account_impersonation_url",
            fake_.url() + "/storage/none?SECRET"},
           {"source_credentials", User()}};
  files.push_back(wrong);
  files.push_back({{"type", "gdch_service_account"}, {"key", "SECRET"}});
  for (const SecretJson& file : files) {
    auto bucket = OpenWith(file);
    const Status status = PutText(*bucket, "c/a", "x").status();
    EXPECT_FALSE(status.ok()) << file["type"];
    EXPECT_THAT(status.ToString(), Not(HasSubstr("SECRET")));
    EXPECT_THAT(status.ToString(), Not(HasSubstr("ya29")));
    const auto access = bucket->Access();
    EXPECT_THAT(access.ok() ? access->credentials : access.status().ToString(),
                Not(HasSubstr("SECRET")));
  }
  // This server repeats the token in its answer.
  HttpTestServer parrot([](const TestRequest& request) {
    const auto value = FindHeader(request.headers, "authorization");
    const SecretJson error = {
        {"error",
         {{"code", 403},
          {"message", "no rights for " + std::string(value->substr(7))}}}};
    return TestAnswer{.status = 403, .body = error.dump()};
  });
  RemoteOptions options = QuickOptions();
  options.endpoint = parrot.Url("");
  auto bucket = *OpenGcsBucketIn(
      "test", options,
      EnvironmentOf({{"GOOGLE_AUTH_TOKEN_FOR_TESTING", "parrot-SECRET"}}));
  EXPECT_THAT(
      bucket->Head("a").status().ToString(),
      testing::AllOf(HasSubstr("no rights for"), Not(HasSubstr("SECRET"))));
}

// This machine's clock is an hour slow; the token endpoint's Date reveals that.
TEST_F(GcsCredentialsTest, AWrongClockIsMendedByTheServers) {
  std::vector<int64_t> issued;
  HttpTestServer server([&](const TestRequest& request) {
    const size_t begin = request.body.find('.') + 1;
    const std::string claims =
        request.body.substr(begin, request.body.find('.', begin) - begin);
    // Decodes "iat" from the claims, which are in URL-safe Base64.
    std::string text(claims.size(), '\0');
    std::string padded = claims;
    for (char& c : padded) c = c == '-' ? '+' : c == '_' ? '/' : c;
    padded.append((4 - padded.size() % 4) % 4, '=');
    const int size =
        EVP_DecodeBlock(reinterpret_cast<unsigned char*>(text.data()),
                        reinterpret_cast<const unsigned char*>(padded.data()),
                        static_cast<int>(padded.size()));
    text.resize(static_cast<size_t>(std::max(size, 0)));
    text = text.substr(0, text.rfind('}') + 1);
    issued.push_back(SecretJson::parse(text)["iat"]);
    TestAnswer answer;
    answer.headers = {{"Date", "Sun, 06 Nov 1994 08:49:37 GMT"}};
    answer.status = issued.back() == 784111777 ? 200 : 400;
    answer.body = answer.status == 200
                      ? R"({"access_token":"t","expires_in":60})"
                      : R"({"error":"invalid_grant"})";
    return answer;
  });
  auto file = std::make_shared<CredentialFile>();
  file->account = "robot@project.example";
  file->private_key = SharedKey().pem;
  file->token_url = server.Url("/token");
  const int64_t now_ns = (784111777 - 3600) * kSecondNs;
  const auto fetch =
      FetchFromFile(file, std::make_shared<HttpClient>(QuickOptions().http),
                    [now_ns] { return now_ns; });
  const auto token = fetch();
  ASSERT_TRUE(token.ok()) << token.status().ToString();
  EXPECT_EQ(token->text, "t");
  EXPECT_EQ(token->expires_ns, now_ns + 60 * kSecondNs);
  EXPECT_EQ(issued, (std::vector<int64_t>{784111777 - 3600, 784111777}));
}

// Hands out numbered tokens, on a clock that the test moves.
struct FakeTokens {
  std::atomic<int64_t> now_ns{1'000 * kSecondNs};
  std::atomic<int> fetch_count{0};
  std::atomic<bool> is_down{false};

  GcsCredentials Make() {
    const auto fetch = [this]() -> Result<GcsToken> {
      if (is_down) return UnavailableError("down");
      const int number = ++fetch_count;
      return GcsToken{"t" + std::to_string(number), now_ns + 3600 * kSecondNs};
    };
    return GcsCredentials(
        [fetch]() -> Result<TokenSource> {
          TokenSource source;
          source.fetch = fetch;
          return source;
        },
        /*plain_http=*/false, [this] { return now_ns.load(); });
  }
};

TEST(GcsTokenRefreshTest, TokensAreFetchedAnewBeforeTheyExpire) {
  FakeTokens tokens;
  GcsCredentials credentials = tokens.Make();
  EXPECT_EQ(credentials.Current(), "");
  EXPECT_EQ(*credentials.Get(), "Bearer t1");
  tokens.now_ns += 3300 * kSecondNs;
  EXPECT_EQ(*credentials.Get(), "Bearer t1");
  tokens.now_ns += 100 * kSecondNs;  // 200 s left
  tokens.is_down = true;
  EXPECT_EQ(*credentials.Get(), "Bearer t1");  // still good
  tokens.is_down = false;
  EXPECT_EQ(*credentials.Get(), "Bearer t2");
  tokens.now_ns += 3700 * kSecondNs;
  tokens.is_down = true;
  EXPECT_EQ(credentials.Get().status().code(), StatusCode::kUnavailable);
  tokens.is_down = false;
  EXPECT_EQ(*credentials.Get(), "Bearer t3");
  EXPECT_EQ(*credentials.Renew("Bearer t2"), "Bearer t3");  // already renewed
  EXPECT_EQ(*credentials.Renew("Bearer t3"), "Bearer t4");
}

TEST(GcsTokenRefreshTest, ManyThreadsFetchOnce) {
  FakeTokens tokens;
  GcsCredentials credentials = tokens.Make();
  std::vector<std::thread> threads;
  for (int i = 0; i < 16; ++i) {
    threads.emplace_back([&] {
      EXPECT_EQ(*credentials.Get(), "Bearer t1");
      EXPECT_EQ(*credentials.Renew("Bearer t0"), "Bearer t1");
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(tokens.fetch_count, 1);
}

}  // namespace
}  // namespace holdfast
