// cp, doctor, and the options of object stores.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/cli/fake_remote.h"
#include "tests/cli/run_words.h"

namespace holdfast::cli {
namespace {

using testing::FakeRemote;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::RunWords;
using testing::TheRemote;

class RemoteVerbs : public ::testing::Test {
 protected:
  void SetUp() override { TheRemote() = FakeRemote(); }
  void TearDown() override { TheRemote() = FakeRemote(); }
};

TEST_F(RemoteVerbs, CpSaysWhatItDid) {
  TheRemote().copied = {.file_count = 12,
                        .byte_count = 3 << 20,
                        .kept_file_count = 2,
                        .checkpoint_count = 1,
                        .total_seconds = 0.5};
  const auto ran = RunWords({"cp", "/a", "s3://b/a"});
  EXPECT_EQ(ran.code, 0);
  EXPECT_EQ(ran.out,
            "ok: 12 files of 1 checkpoint, 3.0 MiB in 0.50 s, 2 files were "
            "there already\n");
  EXPECT_EQ(TheRemote().source, "/a");
  EXPECT_EQ(TheRemote().target, "s3://b/a");
  EXPECT_FALSE(TheRemote().copy.overwrite);
  EXPECT_EQ(RunWords({"cp", "-q", "/a", "s3://b/a"}).out, "");
  EXPECT_THAT(RunWords({"cp", "--json", "/a", "s3://b/a"}).out,
              HasSubstr("\"kept_file_count\": 2"));
}

TEST_F(RemoteVerbs, CpPassesItsOptionsOn) {
  EXPECT_EQ(RunWords({"cp", "--overwrite", "--verify", "--restart", "--memory",
                      "64M", "-j", "3", "gs://b/x", "y"})
                .code,
            0);
  const CopyOptions& options = TheRemote().copy;
  EXPECT_TRUE(options.overwrite && options.verify && options.restart);
  EXPECT_EQ(options.run.memory_bytes, uint64_t{64} << 20);
  EXPECT_EQ(options.run.threads, 3);
}

TEST_F(RemoteVerbs, FailuresHaveTheirExitCodes) {
  TheRemote().status = AlreadyExistsError("copy to y: something is there");
  const auto ran = RunWords({"cp", "x", "y"});
  EXPECT_EQ(ran.code, 3);
  EXPECT_THAT(ran.err, HasSubstr("something is there"));
  TheRemote().status = DataLossError("verify");
  EXPECT_EQ(RunWords({"cp", "--verify", "x", "y"}).code, 1);
  EXPECT_EQ(RunWords({"cp", "x"}).code, 2);
  EXPECT_EQ(RunWords({"cp", "x", "y", "z"}).code, 2);
}

TEST_F(RemoteVerbs, SettingsComeFromOptions) {
  EXPECT_EQ(RunWords({"cp", "x", "y", "--endpoint", "http://h:1", "--region",
                      "eu-west-1", "--profile", "p", "--anonymous",
                      "--requester-pays", "--user-project", "u", "--requests",
                      "7", "--no-hedge", "--ca-bundle", "/ca.pem"})
                .code,
            0);
  const RemoteSettings& settings = TheRemote().settings;
  EXPECT_EQ(settings.endpoint, "http://h:1");
  EXPECT_EQ(settings.region, "eu-west-1");
  EXPECT_EQ(settings.profile, "p");
  EXPECT_EQ(settings.user_project, "u");
  EXPECT_EQ(settings.ca_bundle, "/ca.pem");
  EXPECT_EQ(settings.requests_in_flight_max, 7);
  EXPECT_TRUE(settings.anonymous && settings.requester_pays && !settings.hedge);
  EXPECT_EQ(RunWords({"ls", "x", "--requests", "0"}).code, 2);
  EXPECT_EQ(RunWords({"help", "--region", "x"}).code, 2);
}

TEST_F(RemoteVerbs, DoctorTellsAllAndFailsWhenSomethingHas) {
  Diagnosis& found = TheRemote().found;
  found.url = "s3://b/x";
  found.credentials = "environment";
  found.latency_seconds = 0.0123;
  found.has_clock = true;
  found.clock_skew_seconds = -2.5;
  found.checks = {{"list", CheckOutcome::kFine, "may list"}};
  const auto fine = RunWords({"doctor", "s3://b/x", "--read-only"});
  EXPECT_EQ(fine.code, 0);
  EXPECT_TRUE(TheRemote().diagnose.read_only);
  EXPECT_THAT(fine.out, HasSubstr("12.3 ms"));
  EXPECT_THAT(fine.out, HasSubstr("2.5 s behind"));
  EXPECT_THAT(fine.out, HasSubstr("list"));
  found.checks.push_back(
      {"write", CheckOutcome::kFailed, "no permission to write"});
  const auto failed = RunWords({"doctor", "-q", "s3://b/x"});
  EXPECT_EQ(failed.code, 3);
  EXPECT_THAT(failed.out, HasSubstr("no permission to write"));
  EXPECT_THAT(failed.out, Not(HasSubstr("12.3 ms")));
  EXPECT_THAT(RunWords({"doctor", "--json", "s3://b/x"}).out,
              HasSubstr("\"ok\": false"));
}

}  // namespace
}  // namespace holdfast::cli
