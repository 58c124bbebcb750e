// GcsBucket: a Bucket on Google Cloud Storage, through its JSON API.
//
// Versions are generations. Credentials are the application-default ones
// (token_source.h); endpoint and payer come from the options and the
// environment (gcs_settings.h). Uploads are resumable ones (gcs_upload.h):
// parts are sent in order, and a condition of Finish is checked just before the
// last request, not by the server. Unfinished uploads cannot be listed on this
// store: ListUploads is empty, and they expire after a week.
//
// Thread-safety, units, errors: of stores/cloud/bucket.h. No message contains a
// token, a key, or an upload's address.
#pragma once

#include <memory>
#include <string>

#include "holdfast/status.h"
#include "stores/cloud/bucket.h"
#include "stores/cloud/gcs/gcs_settings.h"
#include "stores/cloud/remote_options.h"

namespace holdfast {

// No I/O. InvalidArgument for an invalid bucket name or endpoint.
Result<std::shared_ptr<Bucket>> OpenGcsBucket(const std::string& bucket,
                                              const RemoteOptions& options);
// Like OpenGcsBucket, with another environment than the process's.
Result<std::shared_ptr<Bucket>> OpenGcsBucketIn(const std::string& bucket,
                                                const RemoteOptions& options,
                                                const Environment& environment);

}  // namespace holdfast
