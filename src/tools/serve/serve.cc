#include "holdfast/tools/serve.h"

#include <utility>

#include "ground/base/process_ptr.h"
#include "ground/base/sha256.h"
#include "ground/base/status_macros.h"
#include "tools/serve/http_server.h"
#include "tools/serve/site.h"

namespace holdfast {
namespace {

bool IsLoopback(const std::string& host) {
  return host.starts_with("127.") || host == "::1";
}

std::string Bracketed(const std::string& host) {
  return host.find(':') == std::string::npos ? host : "[" + host + "]";
}

// Replaces control characters, so that a log entry stays on one line and a
// terminal interprets nothing in it.
std::string Printable(std::string text) {
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
  }
  return text;
}

class HttpSite final : public Server {
 public:
  Status Begin(const ServeOptions& options) {
    host_ = options.host;
    log_ = options.log;
    gate_.token = options.token;
    if (IsLoopback(host_)) {
      gate_.hosts = {"localhost", "127.0.0.1", "[::1]", Bracketed(host_)};
    } else if (gate_.token.empty()) {
      gate_.token = RandomHex32();
    }
    HF_ASSIGN_OR_RETURN(site_, Site::Make(options));
    HttpServerOptions http;
    http.host = options.host;
    http.port = options.port;
    http.client_count_max = options.client_count_max;
    http.header_bytes_max = options.header_bytes_max;
    http.header_seconds_max = options.header_seconds_max;
    http.idle_seconds_max = options.idle_seconds_max;
    http.write_seconds_max = options.write_seconds_max;
    HF_ASSIGN_OR_RETURN(server_,
                        HttpServer::Start(http, [this](const ServedRequest& r) {
                          return Answer(r);
                        }));
    return Status();
  }

  uint16_t port() const override { return server_->port(); }
  const std::string& token() const override { return gate_.token; }
  std::string url() const override {
    return "http://" + Bracketed(host_) + ":" + std::to_string(port()) + "/" +
           (gate_.token.empty() ? "" : "?token=" + EncodePart(gate_.token));
  }

 private:
  ServedResponse Answer(const ServedRequest& request) {
    std::optional<ServedResponse> refusal = gate_.Refuse(request);
    ServedResponse response =
        refusal ? *std::move(refusal) : site_->Answer(request);
    // A browser follows the page's links without the query, so it gets the
    // token as a cookie.
    if (!gate_.token.empty() && response.status < 400 &&
        request.target.query.contains("token")) {
      response.fields.emplace_back("Set-Cookie",
                                   "holdfast_token=" + EncodePart(gate_.token) +
                                       "; Path=/; HttpOnly; SameSite=Strict");
    }
    if (log_) {
      log_((request.is_head ? "HEAD " : "GET ") +
           Printable(request.target.path) + " " +
           std::to_string(response.status) + " " +
           std::to_string(response.byte_count()));
    }
    return response;
  }

  std::string host_;
  Gate gate_;
  std::function<void(const std::string&)> log_;
  std::unique_ptr<Site> site_;
  ProcessPtr<HttpServer> server_;  // destroyed first
};

}  // namespace

Result<std::unique_ptr<Server>> Server::Start(const ServeOptions& options) {
  auto server = std::make_unique<HttpSite>();
  HF_RETURN_IF_ERROR(server->Begin(options));
  return std::unique_ptr<Server>(std::move(server));
}

}  // namespace holdfast
