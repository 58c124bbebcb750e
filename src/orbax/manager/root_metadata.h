// `metadata/_ROOT_METADATA`: metadata about a run, written once.
//
// Thread-safety: any thread. If there are several writers, the first one's
// metadata is kept.
//
// Errors: InvalidArgument for text that is not a JSON object; NotFound "Failed
// to read metadata from P" if the directory exists and the file does not.
#pragma once

#include <optional>
#include <string>

#include "holdfast/status.h"

namespace holdfast {

// Writes the metadata, which is durable afterwards, but keeps an existing file.
Status WriteRootMetadata(const std::string& root,
                         const std::string& custom_metadata_json);
// Returns the custom metadata as a JSON object; nullopt if the metadata
// directory does not exist. Also reads the file's older name,
// `metadata/metadata`.
Result<std::optional<std::string>> ReadRootMetadata(const std::string& root);

}  // namespace holdfast
