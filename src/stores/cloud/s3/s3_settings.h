// S3Settings: where a bucket is and how it is addressed, once options,
// environment and shared files have been asked.
//
// Thread-safety: values and pure functions. Units: none.
// Errors: InvalidArgument (a bucket's name or an endpoint that cannot be),
// Unimplemented (directory buckets, access points).
#pragma once

#include <string>
#include <string_view>

#include "holdfast/status.h"
#include "stores/cloud/remote_options.h"
#include "stores/cloud/s3/aws_profile.h"

namespace holdfast {

struct S3Settings {
  std::string bucket;
  // "http://host:port[/path]" without a slash at the end; "" for Amazon's.
  std::string endpoint;
  std::string endpoint_source;  // "" when Amazon's
  std::string region;           // "us-east-1" when nobody says
  bool is_virtual_host = false;
  bool is_dual_stack = false, is_fips = false;  // of Amazon's endpoints
  bool requester_pays = false;
};

Result<S3Settings> MakeS3Settings(const std::string& bucket,
                                  const RemoteOptions& options,
                                  const AwsConfig& config);

// "https://s3.eu-west-1.amazonaws.com", or the endpoint that is set.
std::string EndpointUrl(const S3Settings& settings, std::string_view region);
// The URL before "/key", with the bucket in host or path.
std::string BucketUrl(const S3Settings& settings, std::string_view region);

// "amazonaws.com", or "amazonaws.com.cn" of China's regions.
std::string AmazonDomain(std::string_view region);

}  // namespace holdfast
