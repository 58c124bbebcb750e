// Signs requests for comparison with other signers. Each line of standard input
// is a JSON object {method, url, headers: [[name, value]], seconds, region,
// key, secret, token, payload_hash}; the answer is a line with the
// Authorization header.
#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>

#include "stores/cloud/s3/sigv4.h"

int main() {
  using namespace holdfast;
  SigningKeyCache cache;
  for (std::string line; std::getline(std::cin, line);) {
    const auto input = nlohmann::json::parse(line);
    HttpRequest request;
    request.method = input.at("method");
    request.url = input.at("url");
    for (const auto& header : input.at("headers")) {
      request.headers.emplace_back(header.at(0), header.at(1));
    }
    const AwsKeys keys{input.at("key"), input.at("secret"), input.at("token")};
    const SigningScope scope{input.at("region"), "s3", input.at("seconds")};
    const std::string hash = input.at("payload_hash");
    const Status status = SignV4(keys, scope, hash, cache, request);
    const auto signature = FindHeader(request.headers, "Authorization");
    std::cout << (status.ok() ? std::string(*signature) : status.ToString())
              << std::endl;
  }
}
