// The drivers of key-value stores: each driver's parser for JSON members, its
// parser for URLs, and how it opens. kvstore_spec.cc has the table of drivers.
//
// Thread-safety, errors: as in kvstore_spec.h. A parser gets an object that
// names the driver; a URL parser gets the part after "scheme://".
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>

#include "orbax/tspec/kvstore_spec.h"

namespace holdfast::spec {

// Reads members that several drivers share.
Status ReadPath(const zarr::Json& object, KvStoreSpec& spec);
Status ReadOptionalBool(const zarr::Json& object, std::string_view name,
                        bool& value);
// Checks members that name resources. In TensorStore, resources limit
// concurrency; here, RunOptions limits it. A resource is an object, or the name
// of a resource ("cache_pool#ocdbt").
Status CheckResources(const zarr::Json& object,
                      std::initializer_list<std::string_view> names);

Status ParseFile(const zarr::Json& object, KvStoreSpec& spec);
Status FileUrl(std::string_view rest, KvStoreSpec& spec);
Result<OpenedKvStore> OpenFile(const KvStoreSpec& spec,
                               const OpenSpecOptions& options);

Status ParseMemory(const zarr::Json& object, KvStoreSpec& spec);
Status MemoryUrl(std::string_view rest, KvStoreSpec& spec);
Result<OpenedKvStore> OpenMemory(const KvStoreSpec& spec,
                                 const OpenSpecOptions& options);

// Returns TensorStore's defaults, for what a config does not specify.
ocdbt::BulkWriteOptions DefaultWriteOptions();
Status ParseOcdbt(const zarr::Json& object, KvStoreSpec& spec);
Result<OpenedKvStore> OpenOcdbt(const KvStoreSpec& spec,
                                const OpenSpecOptions& options);

Status ParseGcs(const zarr::Json& object, KvStoreSpec& spec);
Status GcsUrl(std::string_view rest, KvStoreSpec& spec);
Status ParseS3(const zarr::Json& object, KvStoreSpec& spec);
Status S3Url(std::string_view rest, KvStoreSpec& spec);
Status ParseHttp(const zarr::Json& object, KvStoreSpec& spec);
Status HttpUrl(std::string_view rest, KvStoreSpec& spec);
Status HttpsUrl(std::string_view rest, KvStoreSpec& spec);
// Opens the drivers gcs, s3 and http.
Result<OpenedKvStore> OpenRemote(const KvStoreSpec& spec,
                                 const OpenSpecOptions& options);

}  // namespace holdfast::spec
