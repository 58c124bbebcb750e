#include "stores/cloud/s3/aws_profile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <string>

namespace holdfast {
namespace {

using testing::HasSubstr;

using Variables = std::map<std::string, std::string>;

Environment EnvironmentOf(Variables variables) {
  return [variables = std::move(variables)](const std::string& name) {
    const auto at = variables.find(name);
    return at == variables.end() ? std::string() : at->second;
  };
}

std::string WriteTestFile(const std::string& name, const std::string& text) {
  const std::string path = testing::TempDir() + "aws_profile_test_" + name;
  std::ofstream(path) << text;
  return path;
}

TEST(AwsProfileTest, FilesAreReadAsAmazonsToolsReadThem) {
  const auto file = ParseIni(
      "# a comment\r\n"
      "[default]\r\n"
      "region = eu-west-1 # here\r\n"
      "  ; another\n"
      "key=a=b;c#d\n"
      "s3 =\n"
      "    addressing_style = path\n"
      "\tmax_concurrent_requests=20\n"
      "Output= json\n"
      "[ profile   two words ]\n"
      "x = 1\n"
      "[profile \"quoted\"]\n"
      "[default]\n"
      "key = later\n",
      "f");
  ASSERT_TRUE(file.ok()) << file.status().ToString();
  const IniSection& section = file->at("default");
  EXPECT_EQ(section.at("region"), "eu-west-1");
  EXPECT_EQ(section.at("key"), "later");
  EXPECT_EQ(section.at("s3.addressing_style"), "path");
  EXPECT_EQ(section.at("s3.max_concurrent_requests"), "20");
  EXPECT_EQ(section.at("output"), "json");
  EXPECT_EQ(file->at("profile two words").at("x"), "1");
  EXPECT_EQ(file->count("profile quoted"), 1u);
}

TEST(AwsProfileTest, WhatIsNoSuchFileIsNamedByItsLineAlone) {
  for (const char* text :
       {"key = v", "[default", "[a]\nsecret-without-equals", "[a]\n= secret"}) {
    const auto file = ParseIni(text, "/p/credentials");
    ASSERT_FALSE(file.ok()) << text;
    EXPECT_EQ(file.status().code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(file.status().ToString(), HasSubstr("/p/credentials: line "));
    EXPECT_EQ(file.status().ToString().find("secret-"), std::string::npos);
  }
}

class AwsConfigTest : public testing::Test {
 protected:
  Result<AwsConfig> Read(const std::string& profile = "") {
    Variables all = variables_;
    all["AWS_CONFIG_FILE"] = WriteTestFile("config", config_);
    all["AWS_SHARED_CREDENTIALS_FILE"] = WriteTestFile("keys", credentials_);
    return ReadAwsConfig(profile, EnvironmentOf(all));
  }

  Variables variables_;
  std::string config_, credentials_;
};

TEST_F(AwsConfigTest, NoFilesAreNoSettings) {
  const auto config = ReadAwsConfig(
      "", EnvironmentOf({{"HOME", testing::TempDir() + "no-such-home"}}));
  ASSERT_TRUE(config.ok()) << config.status().ToString();
  EXPECT_EQ(config->profile, "default");
  EXPECT_FALSE(config->Region().has_value());
  EXPECT_FALSE(config->Endpoint("s3").has_value());
  EXPECT_THAT(config->config_path, HasSubstr("no-such-home/.aws/config"));
}

TEST_F(AwsConfigTest, VariablesComeBeforeProfiles) {
  config_ =
      "[default]\nregion = r1\n[profile p]\nregion = r2\n"
      "endpoint_url = http://general\n";
  EXPECT_EQ(Read()->Region()->value, "r1");
  EXPECT_EQ(Read("p")->Region()->value, "r2");
  variables_["AWS_PROFILE"] = "p";
  EXPECT_EQ(Read()->Region()->value, "r2");
  EXPECT_EQ(Read("default")->Region()->value, "r1");
  variables_["AWS_DEFAULT_REGION"] = "r3";
  EXPECT_EQ(Read()->Region()->value, "r3");
  variables_["AWS_REGION"] = "r4";
  EXPECT_EQ(Read()->Region()->value, "r4");
  EXPECT_EQ(Read()->Region()->source, "AWS_REGION");
}

TEST_F(AwsConfigTest, EndpointsOfServices) {
  config_ =
      "[default]\nendpoint_url = http://general\nservices = mine\n"
      "[services mine]\ns3 =\n  endpoint_url = http://of-s3\n"
      "dynamodb =\n  endpoint_url = http://of-dynamodb\n"
      "[profile ignoring]\nendpoint_url = http://x\n"
      "ignore_configured_endpoint_urls = true\n";
  EXPECT_EQ(Read()->Endpoint("s3")->value, "http://of-s3");
  EXPECT_EQ(Read()->Endpoint("sts")->value, "http://general");
  EXPECT_FALSE(Read("ignoring")->Endpoint("s3").has_value());
  variables_["AWS_ENDPOINT_URL"] = "http://variable";
  EXPECT_EQ(Read()->Endpoint("s3")->value, "http://variable");
  variables_["AWS_ENDPOINT_URL_S3"] = "http://variable-s3";
  EXPECT_EQ(Read()->Endpoint("s3")->value, "http://variable-s3");
  EXPECT_EQ(Read()->Endpoint("sts")->value, "http://variable");
  variables_["AWS_IGNORE_CONFIGURED_ENDPOINT_URLS"] = "true";
  EXPECT_FALSE(Read()->Endpoint("s3").has_value());
}

TEST_F(AwsConfigTest, ProfilesThatDoNotExistAreNamed) {
  EXPECT_EQ(Read("none").status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(Read("none").status().ToString(), HasSubstr("profile none"));
  credentials_ = "[none]\naws_access_key_id = a\n";
  EXPECT_TRUE(Read("none").ok());
}

}  // namespace
}  // namespace holdfast
