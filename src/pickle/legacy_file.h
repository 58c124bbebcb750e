// Files of torch.save before torch 1.6: pickles and storages one after another.
//
// Thread-safety: pure functions. Errors: as torch_file.h.
#pragma once

#include <string_view>

#include "holdfast/status.h"
#include "holdfast/tools/torch_file.h"

namespace holdfast::pickle {

bool IsLegacyFile(std::string_view bytes);
Result<PickleValue> ReadLegacyFile(std::string_view bytes);

}  // namespace holdfast::pickle
