// The kinds of SpecHandle: a zarr array, a cast of another handle, and a member
// of a JSON document.
//
// Thread-safety, errors: as in holdfast/orbax/open_spec.h. Ownership: handles
// own their arguments.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "formats/zarr/array.h"
#include "holdfast/orbax/open_spec.h"
#include "orbax/tspec/array_metadata_spec.h"
#include "orbax/tspec/kvstore_spec.h"

namespace holdfast::spec {

struct OpenMode {
  bool open = false;
  bool create = false;
  bool delete_existing = false;
  bool assume_metadata = false;
};
// Returns the mode. The default is "open", unless the spec has "create".
Result<OpenMode> CheckMode(const std::optional<bool>& open,
                           const std::optional<bool>& create,
                           bool delete_existing, bool assume_metadata);

struct ZarrSpec {
  ArrayConstraints constraints;
  KvStoreSpec kvstore;  // of the array's directory
  std::string metadata_key;
  bool fill_missing_data_reads = true;
  bool store_data_equal_to_fill_value = false;
  OpenMode mode;
};
Result<std::unique_ptr<SpecHandle>> OpenZarr(const ZarrSpec& spec,
                                             const OpenSpecOptions& options);

std::unique_ptr<SpecHandle> MakeCast(std::unique_ptr<SpecHandle> base,
                                     DType dtype);

struct JsonMemberSpec {
  KvStoreSpec kvstore;  // of the document
  std::string pointer;
};
// Returns InvalidArgument for a string that is not a JSON Pointer.
Status CheckJsonPointer(const std::string& pointer);
Result<std::unique_ptr<SpecHandle>> OpenJsonMember(
    const JsonMemberSpec& spec, const OpenSpecOptions& options);

}  // namespace holdfast::spec
