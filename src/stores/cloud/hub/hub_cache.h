// The hub's cache on this machine: which directory holds a snapshot of a
// repository, as huggingface_hub keeps it.
//
//   <cache>/models--org--model/refs/main            a commit
//   <cache>/models--org--model/snapshots/<commit>/  links to ../../blobs/…
//
// Thread-safety: reads the file system. Errors: none; a directory that is
// missing, or is not as it should be, does not count as a snapshot.
#pragma once

#include <string>

#include "stores/cloud/hub/hub_name.h"

namespace holdfast {

// The absolute path of the snapshot; "" without one. It may lack files that the
// repository has.
std::string FindHubSnapshot(const std::string& cache_directory,
                            const HubName& name);

}  // namespace holdfast
