// Reads and writes small files of a checkpoint, each given by its Place.
//
// Thread-safety: any thread, for different files. Units: bytes.
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

// Returns a Store that does not keep files of the directory open.
std::shared_ptr<Store> StoreForOneRead(const Place& directory);

std::string JoinPath(std::string_view directory, std::string_view name);

// Returns the contents of a file. NotFound if there is no file, or only a
// directory with this name. DataLoss if the file is larger than `bytes_max`.
Result<std::string> ReadWholeFile(const Place& file, size_t bytes_max);

// Writes the complete file in one step, replacing an old file. With `sync`, its
// content and name are durable. Its directory must exist.
Status PutFile(const Place& file, std::string_view content, bool sync);

// Like the functions of holdfast/megatron/zarr.h that take a path.
Result<CheckpointingConfig> ReadConfig(const Place& checkpoint,
                                       UnknownMembers unknown);
Result<std::string> ReadCommon(const Place& checkpoint);
Result<std::string> ReadObject(const Place& checkpoint,
                               const ShardedObject& object);

}  // namespace holdfast::megatron
