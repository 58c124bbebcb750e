// The Store of a directory, wherever it is: a path, gs://, s3://, http(s)://,
// or a scheme that a test registered.
//
// Thread-safety: any thread. Ownership: a store keeps its connections alive.
// Errors: OpenStore: InvalidArgument (bad URL), Unimplemented (no such scheme).
// No I/O happens here.
#pragma once

#include <memory>
#include <string>

#include "holdfast/status.h"
#include "storage/store.h"

namespace holdfast {

Result<std::shared_ptr<Store>> OpenStore(const std::string& directory);
// The same; if it cannot be opened, every call of the store gives the reason.
std::shared_ptr<Store> StoreAt(const std::string& directory);

}  // namespace holdfast
