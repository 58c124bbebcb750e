// `metadata/_ROOT_METADATA`: metadata that a run records about itself once.
//
// Thread-safety: any thread; of several writers the first wins.
// Errors: InvalidArgument for text that is not a JSON object; NotFound "Failed
// to read metadata from P" if the directory exists and the file does not.
#pragma once

#include <optional>
#include <string>

#include "holdfast/status.h"

namespace holdfast {

// Durable when it returns. Keeps an existing file.
Status WriteRootMetadata(const std::string& root,
                         const std::string& custom_metadata_json);
// Returns the custom metadata as a JSON object; nullopt without a metadata
// directory. Also reads the file under its older name, `metadata/metadata`.
Result<std::optional<std::string>> ReadRootMetadata(const std::string& root);

}  // namespace holdfast
