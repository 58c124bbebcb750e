// GcsBucket: a Bucket on Google Cloud Storage, through its JSON API.
//
// Versions are generations. The credentials are application-default credentials
// (token_source.h). The endpoint and the payer come from the options and the
// environment (gcs_settings.h).
//
// Uploads are resumable uploads (gcs_upload.h): parts are sent in order, and
// Finish checks its condition just before the last request, since the server
// does not. Unfinished uploads cannot be listed on this store: ListUploads
// returns nothing, and they expire after a week.
//
// Thread-safety, units, errors: those of stores/cloud/bucket.h. No message
// contains a token, a key, or an upload's address.
#pragma once

#include <memory>
#include <string>

#include "holdfast/status.h"
#include "stores/cloud/bucket.h"
#include "stores/cloud/gcs/gcs_settings.h"
#include "stores/cloud/remote_options.h"

namespace holdfast {

// Opens a bucket without any I/O. InvalidArgument for an invalid bucket name or
// endpoint.
Result<std::shared_ptr<Bucket>> OpenGcsBucket(const std::string& bucket,
                                              const RemoteOptions& options);
// Like OpenGcsBucket, with `environment` instead of the process's.
Result<std::shared_ptr<Bucket>> OpenGcsBucketIn(const std::string& bucket,
                                                const RemoteOptions& options,
                                                const Environment& environment);

}  // namespace holdfast
