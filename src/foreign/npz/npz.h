// Reads npz: numpy's zip archives of npy arrays.
//
// Thread-safety: pure functions of the file system.
// Errors: NotFound; DataLoss for a damaged archive or header;
// FailedPrecondition for a sidecar that does not fit. An array of Python
// objects (which only a pickle can hold), or of a dtype that holdfast lacks, is
// its leaf's `problem`.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "ground/base/cancel.h"
#include "ground/base/executor.h"
#include "holdfast/checkpoint.h"
#include "stores/place/place.h"

namespace holdfast {

inline constexpr std::string_view kNpySuffix = ".npy";

// Opens the npz file `file`, an absolute path. Leaves are in the order of the
// members, and their names lack ".npy". Stored members are read in place,
// deflated members as streams. With `verify`, the complete member is compared
// with its CRC before any part of it is returned.
Result<std::unique_ptr<Checkpoint>> OpenNpz(const Place& file, bool use_sidecar,
                                            bool verify);

// Checks the bytes and the CRC of each member for which `takes` returns true.
// Sets `member_count` to the number of these members. `file` may be any zip
// archive.
Result<std::vector<Damage>> CheckZipMembers(
    const Place& file, Executor& executor, const CancelToken& cancel,
    const std::function<bool(const std::string& name, uint64_t byte_count)>&
        takes,
    uint64_t& member_count);

}  // namespace holdfast
