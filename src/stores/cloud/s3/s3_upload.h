// S3Upload: an object uploaded in parts, in any order and any number of them
// concurrently.
//
// Finish names every part, as Ceph requires. It checks its condition first, and
// also sends the condition, for servers that honor it. An unfinished upload is
// aborted on destruction.
// Thread-safety: Part from any thread; Finish and Abort once, after all parts
// have returned. Ownership: shares the connection. Units: bytes.
// Errors: those of Upload; FailedPrecondition also if another client has
// aborted the upload.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "stores/cloud/bucket.h"
#include "stores/cloud/s3/s3_connection.h"

namespace holdfast {

inline constexpr uint64_t kS3PartCountMax = 10'000;
inline constexpr uint64_t kS3PartBytesMin = 16 << 20;

// Returns the size of the part with this index, which counts from 0. The first
// 1000 parts have the same size, for servers that require that. Then the sizes
// grow, so that 10,000 parts hold 5 TiB.
uint64_t S3PartBytes(uint64_t index);

class S3Upload : public Upload {
 public:
  static Result<std::unique_ptr<S3Upload>> Start(
      std::shared_ptr<S3Connection> connection, std::string_view key);
  ~S3Upload() override;

  Status Part(uint64_t index, std::span<const std::string_view> pieces,
              bool is_last) override;
  // A part that the server copies from another object.
  struct CopiedPart {
    uint64_t index = 0;
    uint64_t offset = 0, byte_count = 0;
  };
  Status CopyParts(std::string_view source, const std::string& source_version,
                   std::span<const CopiedPart> parts);
  Result<std::string> Finish(const Condition& condition) override;
  void Abort() override;

 private:
  S3Upload(std::shared_ptr<S3Connection> connection, std::string_view key);

  S3Request PartRequest(std::string_view action, uint64_t index) const;
  Status PartFailure(const S3Request& request, const HttpResponse& response);
  Result<std::vector<std::string>> PartETags();
  Result<std::string> ListedETag(int part_number);
  Result<std::string> Complete(const std::vector<std::string>& etags,
                               const Condition& condition);

  const std::shared_ptr<S3Connection> connection_;
  const std::string key_;
  const std::string write_id_;
  std::string upload_id_;
  bool is_over_ = false;
  std::mutex mutex_;
  std::map<uint64_t, std::string> etags_;  // by index; guarded by mutex_
};

// Aborts an upload on the server. Ok if it has ended already.
Status AbortS3Upload(S3Connection& connection, const std::string& key,
                     const std::string& upload_id);

}  // namespace holdfast
