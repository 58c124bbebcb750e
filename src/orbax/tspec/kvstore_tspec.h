// Functions from which the public builders of key-value store specs are made.
//
// Thread-safety: pure functions, apart from the environment variable
// TENSORSTORE_GCS_BACKEND. Units: bytes. Errors: as in holdfast/orbax/spec.h.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "holdfast/orbax/spec.h"
#include "orbax/tspec/spec_json.h"

namespace holdfast::spec {

// Works like Python's os.path.normpath.
std::string NormalizePath(std::string_view path);
// Works like os.path.join with two paths.
std::string JoinPaths(std::string_view first, std::string_view second);

bool IsRemote(const OrderedJson& tspec);
// Returns the default for the maximum size of a data file. It is smaller on
// gs://.
int64_t DefaultDataFileBytes(const OrderedJson* kvstore_tspec);

Status AddWriteOptions(std::optional<int64_t> target_data_file_size,
                       OrderedJson& kvstore_tspec);
Result<OrderedJson> KvstoreTspec(const std::string& directory,
                                 const KvstoreTspecOptions& options);

}  // namespace holdfast::spec
