// Tests Diagnose with a bucket in memory. tests/remote/test_cli.py uses real
// servers.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <string_view>

#include "holdfast/tools/remote.h"
#include "stores/place/bucket_registry.h"
#include "twins/fault_bucket.h"
#include "twins/memory_bucket.h"

namespace holdfast {
namespace {

TEST(Diagnose, FindsWhatIsMissing) {
  MemoryBucketOptions options = MemoryBucketOptions::S3Like();
  options.name = "b";
  const auto memory = std::make_shared<MemoryBucket>(options);
  const auto faults = std::make_shared<FaultBucket>(memory);
  BucketRegistry::Default().Register(
      "mem", [faults](const std::string&, const RemoteOptions&) {
        return Result<std::shared_ptr<Bucket>>(faults);
      });
  const auto outcome = [](const Diagnosis& found, std::string_view name) {
    for (const RemoteCheck& check : found.checks) {
      if (check.name == name)
        return std::string(CheckOutcomeName(check.outcome));
    }
    return std::string("none");
  };
  const auto fine = Diagnose("mem://b/run");
  ASSERT_TRUE(fine.ok()) << fine.status().ToString();
  EXPECT_FALSE(fine->has_failed());
  for (const char* const name :
       {"list", "read", "write", "conditional write", "multipart", "delete"}) {
    EXPECT_EQ(outcome(*fine, name), "fine") << name;
  }
  EXPECT_EQ(memory->object_count(), 0u);
  EXPECT_GT(fine->latency_seconds, 0);

  faults->SetFaults({.ignores_conditions = true});
  const auto ignoring = Diagnose("mem://b/run");
  EXPECT_EQ(outcome(*ignoring, "conditional write"), "failed");
  EXPECT_TRUE(ignoring->has_failed());

  faults->SetFaults({});
  faults->SetHook([](BucketRequest kind, std::string_view) {
    return kind == BucketRequest::kList || kind == BucketRequest::kPut
               ? PermissionDeniedError("no")
               : Status();
  });
  const auto denied = Diagnose("mem://b/run");
  faults->SetHook({});
  EXPECT_EQ(outcome(*denied, "list"), "failed");
  EXPECT_EQ(outcome(*denied, "write"), "failed");
  EXPECT_EQ(outcome(*denied, "delete"), "skipped");
  EXPECT_EQ(Diagnose("/a/path").status().code(), StatusCode::kInvalidArgument);

  DiagnoseOptions read_only;
  read_only.read_only = true;
  faults->ResetCounters();
  EXPECT_EQ(outcome(*Diagnose("mem://b/run", read_only), "write"), "skipped");
  EXPECT_EQ(faults->counters().of(BucketRequest::kPut), 0u);
}

}  // namespace
}  // namespace holdfast
