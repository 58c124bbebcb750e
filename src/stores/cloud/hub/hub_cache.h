// The hub's cache on this machine: which directory holds a snapshot of a
// repository, as huggingface_hub keeps it.
//
//   <cache>/models--org--model/refs/main            a commit
//   <cache>/models--org--model/snapshots/<commit>/  links to ../../blobs/…
//
// Thread-safety: reads the file system. Errors: none; what is not there, or is
// not as it should be, is no snapshot.
#pragma once

#include <string>

#include "stores/cloud/hub/hub_name.h"

namespace holdfast {

// The absolute path of the snapshot; "" where there is none. It may lack files
// that the repository has.
std::string FindHubSnapshot(const std::string& cache_directory,
                            const HubName& name);

}  // namespace holdfast
