// A bucket in memory at "mem://test/…", in a FaultBucket, which counts
// requests.
//
// Thread-safety: one test at a time. Ownership: the registry and the fixture
// share the bucket.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "stores/place/bucket_registry.h"
#include "twins/fault_bucket.h"
#include "twins/memory_bucket.h"

namespace holdfast {

struct MemBucketForTest {
  explicit MemBucketForTest(
      MemoryBucketOptions options = MemoryBucketOptions::S3Like())
      : memory(std::make_shared<MemoryBucket>(std::move(options))),
        bucket(std::make_shared<FaultBucket>(memory)) {
    BucketRegistry::Default().Register(
        "mem", [bucket = bucket](const std::string&, const RemoteOptions&) {
          return Result<std::shared_ptr<Bucket>>(bucket);
        });
  }

  void Put(std::string_view key, std::string_view content) {
    const std::string_view pieces[] = {content};
    (void)memory->Put(key, pieces).value();
  }
  bool Has(std::string_view key) { return memory->Head(key).ok(); }
  std::string Content(const std::string& key) {
    const GetRequest request{.key = key};
    auto results = memory->Get({&request, 1});
    return results[0].ok() ? results[0]->bytes.ToString()
                           : results[0].status().ToString();
  }

  std::shared_ptr<MemoryBucket> memory;
  std::shared_ptr<FaultBucket> bucket;
};

}  // namespace holdfast
