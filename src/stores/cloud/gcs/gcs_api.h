// GcsApi sends requests to one bucket's JSON API, with credentials and the
// paying project. If the credentials are refused, it sends the request once
// more with fresh ones.
//
// Thread-safety: any thread. Ownership: shares the client and the credentials.
// Units: nanoseconds since 1970. Errors: those of HttpClient::Send and
// GcsCredentials::Get, prefixed with the action and the object's URL.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ground/base/status_macros.h"
#include "holdfast/status.h"
#include "stores/cloud/answer_headers.h"
#include "stores/cloud/gcs/gcs_credentials.h"
#include "stores/cloud/gcs/gcs_settings.h"
#include "stores/http/http_client.h"

namespace holdfast {

// A query's parameters: names and values, which are escaped when the URL is
// built.
using GcsParameters = std::vector<std::pair<std::string_view, std::string>>;

// The purpose of a request, for messages.
struct GcsAction {
  std::string_view verb;        // "read"
  std::string_view key;         // "" for the bucket
  std::string_view permission;  // the permission that it needs
};

class GcsApi {
 public:
  GcsApi(std::string bucket, GcsSettings settings, bool requester_pays,
         std::shared_ptr<HttpClient> client,
         std::shared_ptr<GcsCredentials> credentials);

  const std::string& bucket() const { return bucket_; }
  const std::string& endpoint() const { return settings_.endpoint; }
  GcsCredentials& credentials() const { return *credentials_; }
  std::string UrlOf(std::string_view key) const;  // "gs://bucket/key"

  // Finds the credentials and, if the requester pays, the project. Call this
  // before building any URL.
  Status Begin();

  // Returns "/storage/v1/b/<bucket>/o/<key>", escaped.
  std::string ObjectPath(std::string_view key) const;
  // Returns "/storage/v1/b/<bucket>".
  std::string BucketPath() const;
  // Returns "/storage/v1/b/<bucket>/o".
  std::string ObjectsPath() const;
  // Returns `path` with its query and the paying project, but without the
  // endpoint.
  std::string PathWith(const std::string& path,
                       const GcsParameters& parameters) const;
  std::string Url(const std::string& path,
                  const GcsParameters& parameters) const;

  // Makes a request whose answer may have at most `answer_bytes_max` bytes.
  static HttpRequest Request(std::string_view method, std::string url,
                             uint64_t answer_bytes_max = 1 << 20);
  Result<HttpResponse> Send(HttpRequest request, const GcsAction& action);
  // Sends a request that is answered with JSON, and parses the answer.
  template <typename Parse>
  auto Ask(HttpRequest request, const GcsAction& action, Parse parse)
      -> decltype(parse(std::string_view())) {
    HF_ASSIGN_OR_RETURN(const HttpResponse answer,
                        Send(std::move(request), action));
    return Read(answer, action, parse);
  }
  template <typename Parse>
  auto Read(const HttpResponse& answer, const GcsAction& action,
            Parse parse) const -> decltype(parse(std::string_view())) {
    if (answer.status != 200 && answer.status != 201) {
      return Error(action, answer);
    }
    auto parsed = parse(answer.body.view());
    return parsed.ok() ? std::move(parsed) : Context(action, parsed.status());
  }
  // Sends all requests concurrently. Results are in the order of the requests.
  // Failures are not prefixed with an action.
  std::vector<Result<HttpResponse>> SendAll(std::span<HttpRequest> requests);

  // Returns the Status for an answer that is not a success.
  Status Error(const GcsAction& action, const HttpResponse& answer) const;
  Status Error(const GcsAction& action, int status,
               std::string_view body) const;
  // Adds the action to a failure that does not come from the server.
  Status Context(const GcsAction& action, const Status& status) const;

  // Returns the time in the last answer's Date; 0 before the first answer.
  int64_t server_time_ns() const { return clock_.now_ns(); }

 private:
  void Authorize(HttpRequest& request) const;
  bool IsOurServer(std::string_view url) const;

  const std::string bucket_;
  const GcsSettings settings_;
  const bool requester_pays_;
  const std::shared_ptr<HttpClient> client_;
  const std::shared_ptr<GcsCredentials> credentials_;
  ServerClock clock_;
  mutable std::mutex mutex_;
  bool has_project_ = false;  // guarded by mutex_
  std::string project_;       // the paying project; guarded by mutex_
};

}  // namespace holdfast
