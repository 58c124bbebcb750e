// S3Settings: where a bucket is and how it is addressed, according to the
// options, the environment and the shared files.
//
// Thread-safety: values and pure functions. Units: none.
// Errors: InvalidArgument (an invalid bucket name or endpoint), Unimplemented
// (directory buckets, access points).
#pragma once

#include <string>
#include <string_view>

#include "holdfast/status.h"
#include "stores/cloud/remote_options.h"
#include "stores/cloud/s3/aws_profile.h"

namespace holdfast {

struct S3Settings {
  std::string bucket;
  // "http://host:port[/path]" without a trailing slash; "" for Amazon's.
  std::string endpoint;
  std::string endpoint_source;  // "" for Amazon's
  std::string region;           // "us-east-1" by default
  bool is_virtual_host = false;
  bool is_dual_stack = false, is_fips = false;  // of Amazon's endpoints
  bool requester_pays = false;
};

Result<S3Settings> MakeS3Settings(const std::string& bucket,
                                  const RemoteOptions& options,
                                  const AwsConfig& config);

// Returns "https://s3.eu-west-1.amazonaws.com", or the endpoint that is set.
std::string EndpointUrl(const S3Settings& settings, std::string_view region);
// Returns the part of the URL before "/key", with the bucket in the host or the
// path.
std::string BucketUrl(const S3Settings& settings, std::string_view region);

// Returns "amazonaws.com", or "amazonaws.com.cn" for China's regions.
std::string AmazonDomain(std::string_view region);

}  // namespace holdfast
