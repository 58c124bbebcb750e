// Finds a repository's snapshot in the hub's cache on this machine, which
// huggingface_hub fills.
//
//   <cache>/models--org--model/refs/main            a commit
//   <cache>/models--org--model/snapshots/<commit>/  links to ../../blobs/…
//
// Thread-safety: reads the file system. Errors: none; a missing or malformed
// directory does not count as a snapshot.
#pragma once

#include <string>

#include "stores/cloud/hub/hub_name.h"

namespace holdfast {

// Returns the absolute path of the snapshot, or "" if the cache has no
// snapshot. The snapshot may lack files that the repository has.
std::string FindHubSnapshot(const std::string& cache_directory,
                            const HubName& name);

}  // namespace holdfast
