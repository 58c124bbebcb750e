// Reading npz: numpy's zip archives of npy arrays.
//
// Thread-safety: pure functions of the file system.
// Errors: NotFound; DataLoss for an archive or a header that is damaged;
// an array of Python objects (which only a pickle can hold), or of a dtype that
// holdfast lacks, is its leaf's `problem`; FailedPrecondition for a sidecar
// that does not fit.
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

// `file` is absolute. Leaves in the order of the members, without ".npy".
// Stored members are read where they lie, deflated ones as streams. With
// `verify` the whole member is compared with its CRC before the first part of
// it is given.
Result<std::unique_ptr<Checkpoint>> OpenNpz(const Place& file, bool use_sidecar,
                                            bool verify);

// Checks, in any zip archive, every member that `takes` takes, by its bytes and
// its CRC; `member_count` is their number.
Result<std::vector<Damage>> CheckZipMembers(
    const Place& file, Executor& executor, const CancelToken& cancel,
    const std::function<bool(const std::string& name, uint64_t byte_count)>&
        takes,
    uint64_t& member_count);

}  // namespace holdfast
