// KvStoreSpec: a parsed and checked spec of a key-value store, and the store
// that it opens. kvstore_spec.cc has the table of drivers. Drivers that cannot
// be opened are refused by name.
//
// Thread-safety: values; Open may run concurrently. Ownership: an opened store
// shares what it needs. Units: bytes.
// Errors: InvalidArgument with TensorStore's messages; Unimplemented, naming
// the driver.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "formats/ocdbt/commit.h"
#include "formats/zarr/format/json_read.h"
#include "holdfast/orbax/open_spec.h"
#include "orbax/tspec/spec_json.h"
#include "stores/storage/store.h"

namespace holdfast::spec {

struct KvStoreSpec {
  std::string driver;
  std::string path;    // prefix of every key
  std::string bucket;  // gcs and s3
  // Driver http: the URL up to its path. `path` has the URL's path, from '/'
  // on.
  std::string base_url;
  // Drivers gcs and s3. Empty values come from the process's settings and
  // environment.
  std::string endpoint;
  std::string region;
  std::string profile;
  std::string user_project;
  bool anonymous = false;
  bool requester_pays = false;
  // Driver file.
  bool sync = true;
  bool atomic = true;
  // Driver ocdbt.
  std::shared_ptr<const KvStoreSpec> base;
  ocdbt::BulkWriteOptions write;

  OrderedJson ToJson() const;
};

// Parses an object or a URL.
Result<KvStoreSpec> ParseKvStore(const zarr::Json& value);

// Returns the same store with its path as a directory.
KvStoreSpec AsDirectory(KvStoreSpec spec);

struct OpenedKvStore {
  std::shared_ptr<Store> store;
  std::string prefix;  // of keys, in the store
  WriteOptions write;
  // Makes all writes until now visible, down to the lowest store.
  std::function<Status()> commit;
};
Result<OpenedKvStore> OpenStore(const KvStoreSpec& spec,
                                const OpenSpecOptions& options);

}  // namespace holdfast::spec
