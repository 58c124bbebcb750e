// Calls CheckStillThere for all items of a checkpoint.
//
// Thread-safety: any thread.
// Errors: Unavailable if an item was replaced since it was opened.
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
