// Small files of a checkpoint, by place.
//
// Thread-safety: any thread, different files. Units: bytes.
// Errors: errno_status.h, with the path.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "holdfast/megatron/zarr.h"
#include "holdfast/status.h"
#include "stores/place/place.h"
#include "stores/storage/store.h"

namespace holdfast::megatron {

// A Store that keeps no file of the directory open.
std::shared_ptr<Store> StoreForOneRead(const Place& directory);

std::string JoinPath(std::string_view directory, std::string_view name);

// NotFound when there is no such file, or a directory; DataLoss when it is
// larger than `bytes_max`.
Result<std::string> ReadWholeFile(const Place& file, size_t bytes_max);

// Writes the whole file in one step, in place of an old one. With `sync`
// content and name are on stable storage. Its directory exists.
Status PutFile(const Place& file, std::string_view content, bool sync);

// The files of a path that the functions of holdfast/megatron/zarr.h read.
Result<CheckpointingConfig> ReadConfig(const Place& checkpoint,
                                       UnknownMembers unknown);
Result<std::string> ReadCommon(const Place& checkpoint);
Result<std::string> ReadObject(const Place& checkpoint,
                               const ShardedObject& object);

}  // namespace holdfast::megatron
