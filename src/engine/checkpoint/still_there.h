// CheckStillThere of all items of a checkpoint.
//
// Thread-safety: any thread. Errors: Unavailable when one of them is not what
// was opened any more.
#pragma once

#include <memory>
#include <vector>

#include "engine/restore/item.h"
#include "ground/base/status_macros.h"

namespace holdfast {

inline Status CheckStillThere(const std::vector<std::unique_ptr<Item>>& items) {
  for (const std::unique_ptr<Item>& item : items) {
    HF_RETURN_IF_ERROR(item->CheckStillThere());
  }
  return Status();
}

}  // namespace holdfast
