// `metadata/_ROOT_METADATA`: what a run says about itself, written once.
//
// Thread-safety: any thread; of several writers the first wins.
// Errors: InvalidArgument for text that is no JSON object; NotFound
// "Failed to read metadata from P" where the directory is there and the file is
// not.
#pragma once

#include <optional>
#include <string>

#include "holdfast/status.h"

namespace holdfast {

// Durable when it returns. Keeps an existing file.
Status WriteRootMetadata(const std::string& root,
                         const std::string& custom_metadata_json);
// The custom metadata as a JSON object; nullopt without a metadata directory.
// Also knows the file's older name, `metadata/metadata`.
Result<std::optional<std::string>> ReadRootMetadata(const std::string& root);

}  // namespace holdfast
