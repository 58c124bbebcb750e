#include "stores/cloud/s3/s3_settings.h"

#include <algorithm>

#include "ground/base/status_macros.h"
#include "stores/http/url.h"

namespace holdfast {
namespace {

bool IsLowerOrDigit(char c) {
  return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

// Accepts every bucket name that any server accepts in a path.
Status CheckBucketName(const std::string& bucket) {
  if (bucket.starts_with("arn:")) {
    return UnimplementedError("s3://" + bucket +
                              ": access points are not supported: name the "
                              "bucket");
  }
  if (bucket.ends_with("--x-s3")) {
    return UnimplementedError(
        "s3://" + bucket +
        ": directory buckets (S3 Express) are not supported");
  }
  const bool is_plain = std::all_of(bucket.begin(), bucket.end(), [](char c) {
    return IsLowerOrDigit(c) || (c >= 'A' && c <= 'Z') || c == '-' ||
           c == '.' || c == '_';
  });
  if (!is_plain || bucket.size() < 3 || bucket.size() > 255 ||
      bucket.find("..") != std::string::npos) {
    return InvalidArgumentError("s3://" + bucket +
                                ": not the name of a bucket (3 to 63 of a-z, "
                                "0-9, '-' and '.')");
  }
  return {};
}

// Returns true if the bucket's name may be part of a host name, even with TLS,
// where the '*' of a certificate does not match a dot.
bool FitsHostName(std::string_view bucket) {
  return bucket.size() <= 63 && IsLowerOrDigit(bucket.front()) &&
         IsLowerOrDigit(bucket.back()) &&
         std::all_of(bucket.begin(), bucket.end(),
                     [](char c) { return IsLowerOrDigit(c) || c == '-'; });
}

Status CheckRegion(const AwsSetting& region) {
  const bool is_plain = std::all_of(
      region.value.begin(), region.value.end(),
      [](char c) { return IsLowerOrDigit(c) || c == '-' || c == '_'; });
  if (is_plain && region.value.size() <= 64) return {};
  return InvalidArgumentError("region from " + region.source +
                              ": not the name of a region");
}

// Removes default ports and trailing slashes, to match the URL that is signed.
Result<std::string> NormalEndpoint(const AwsSetting& endpoint) {
  const auto url = ParseUrl(endpoint.value);
  const bool is_http =
      url.ok() && (url->scheme == "http" || url->scheme == "https");
  if (!is_http || url->host.empty() || !url->query.empty()) {
    return InvalidArgumentError("S3 endpoint from " + endpoint.source + ": " +
                                RedactUrl(endpoint.value) +
                                ": want http://host[:port] or https://…");
  }
  std::string normal = url->scheme + "://" + url->host;
  const uint16_t usual_port = url->scheme == "http" ? 80 : 443;
  if (url->port != 0 && url->port != usual_port) {
    normal += ':' + std::to_string(url->port);
  }
  normal += url->path;
  while (normal.ends_with('/')) normal.pop_back();
  return normal;
}

bool WantsVirtualHost(const S3Settings& settings, const RemoteOptions& options,
                      const AwsConfig& config) {
  using Style = RemoteOptions::Style;
  if (options.style != Style::kAuto) {
    return options.style == Style::kVirtualHost;
  }
  const auto style = config.Profile("s3.addressing_style");
  if (style && style->value == "path") return false;
  if (style && style->value == "virtual") return true;
  return settings.endpoint.empty() && FitsHostName(settings.bucket);
}

}  // namespace

Result<S3Settings> MakeS3Settings(const std::string& bucket,
                                  const RemoteOptions& options,
                                  const AwsConfig& config) {
  HF_RETURN_IF_ERROR(CheckBucketName(bucket));
  S3Settings settings;
  settings.bucket = bucket;
  settings.requester_pays = options.requester_pays;
  const auto endpoint =
      options.endpoint.empty()
          ? config.Endpoint("s3")
          : AwsSetting{options.endpoint, "the option endpoint"};
  if (endpoint) {
    HF_ASSIGN_OR_RETURN(settings.endpoint, NormalEndpoint(*endpoint));
    settings.endpoint_source = endpoint->source;
  }
  auto region = options.region.empty()
                    ? config.Region()
                    : AwsSetting{options.region, "the option region"};
  if (!region) region = AwsSetting{"us-east-1", "default"};
  HF_RETURN_IF_ERROR(CheckRegion(*region));
  settings.region = region->value;
  settings.is_virtual_host = WantsVirtualHost(settings, options, config);
  if (settings.is_virtual_host && !FitsHostName(bucket) &&
      bucket.find_first_of("_ABCDEFGHIJKLMNOPQRSTUVWXYZ") !=
          std::string::npos) {
    return InvalidArgumentError("s3://" + bucket +
                                ": this name fits no host's: use path style");
  }
  const auto flag = [&](const char* variable, const char* key) {
    const std::string value = config.Variable(variable);
    if (!value.empty()) return IsTrueSetting(value);
    const auto setting = config.Profile(key);
    return setting && IsTrueSetting(setting->value);
  };
  settings.is_dual_stack =
      flag("AWS_USE_DUALSTACK_ENDPOINT", "use_dualstack_endpoint");
  settings.is_fips = flag("AWS_USE_FIPS_ENDPOINT", "use_fips_endpoint");
  return settings;
}

std::string AmazonDomain(std::string_view region) {
  return region.starts_with("cn-") ? "amazonaws.com.cn" : "amazonaws.com";
}

std::string EndpointUrl(const S3Settings& settings, std::string_view region) {
  if (!settings.endpoint.empty()) return settings.endpoint;
  std::string url = settings.is_fips ? "https://s3-fips." : "https://s3.";
  if (settings.is_dual_stack) url += "dualstack.";
  return url + std::string(region) + '.' + AmazonDomain(region);
}

std::string BucketUrl(const S3Settings& settings, std::string_view region) {
  const std::string url = EndpointUrl(settings, region);
  if (!settings.is_virtual_host) return url + '/' + settings.bucket;
  const size_t host = url.find("://") + 3;
  return url.substr(0, host) + settings.bucket + '.' + url.substr(host);
}

}  // namespace holdfast
