// GetRanges implements Bucket::Get with Range requests, for servers that answer
// them with status 206.
//
// Thread-safety: as Bucket. Ownership: everything is borrowed for the call.
// Units: bytes.
// Errors: as Bucket::Get.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ground/base/bytes.h"
#include "ground/base/cancel.h"
#include "stores/cloud/bucket.h"
#include "stores/http/http_client.h"

namespace holdfast {

// One read in progress.
struct RangeGet {
  const GetRequest* request = nullptr;
  uint64_t byte_count = 0;  // requested; exact if `is_exact`
  bool is_exact = false;
  Buffer buffer;           // for an exact read without a target
  std::span<char> target;  // if empty, the answer's body is used
};

// The differences between servers.
class RangeServer {
 public:
  virtual ~RangeServer() = default;

  virtual std::string UrlOf(std::string_view key) const = 0;
  virtual Status CheckReadKey(std::string_view key) const = 0;
  // How many bytes a read to an object's end requests at first. The rest is
  // requested separately, from the same version.
  virtual uint64_t open_bytes() const = 0;
  // If true, a complete object is requested without a Range, so that an empty
  // object needs no special case. The request then fails if the object is
  // longer than `open_bytes`.
  virtual bool gives_whole_objects() const { return false; }
  // Builds the request except for its Range, target and cancel token.
  virtual HttpRequest ToHttp(const RangeGet& read) const = 0;
  // Sends all requests. `requests[i]` is for `reads[i]`.
  virtual std::vector<Result<HttpResponse>> SendReads(
      std::span<const RangeGet> reads, std::span<HttpRequest> requests) = 0;
  virtual Status SendFailure(const GetRequest& /*request*/,
                             const Status& status) const {
    return status;
  }
  virtual Result<ObjectEntry> HeadOf(std::string_view key) = 0;
  virtual Result<ObjectEntry> EntryOf(const GetRequest& request,
                                      const HttpResponse& answer,
                                      uint64_t total_bytes) const = 0;
  // Returns the error for an object whose version is not the wanted one.
  virtual Status OtherVersion(const GetRequest& request,
                              const ObjectEntry& object) const = 0;
  virtual Status CheckBytes(const GetRequest& /*request*/,
                            const HttpResponse& /*answer*/,
                            std::string_view /*bytes*/,
                            uint64_t /*total_bytes*/) const {
    return {};
  }
  // Handles answers that are neither a range nor a 416.
  virtual Result<GetResult> OtherAnswer(RangeGet& read,
                                        HttpResponse& answer) = 0;
};

// Takes an answer with status 200, which is acceptable only if the complete
// object was wanted. Otherwise the result is an error with the code `refusal`.
Result<GetResult> TakeWholeObject(const RangeServer& server, RangeGet& read,
                                  HttpResponse& answer, StatusCode refusal);

std::vector<Result<GetResult>> GetRanges(RangeServer& server,
                                         std::span<const GetRequest> requests,
                                         const CancelToken* cancel);

}  // namespace holdfast
