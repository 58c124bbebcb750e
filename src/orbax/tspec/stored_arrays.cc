#include <utility>

#include "engine/checkpoint/opened_checkpoint.h"
#include "engine/restore/item.h"
#include "ground/base/no_throw.h"
#include "ground/base/status_macros.h"
#include "holdfast/orbax/open_spec.h"

namespace holdfast {

Result<std::unique_ptr<Checkpoint>> OpenStoredArrays(
    const std::string& directory, const std::vector<std::string>& names,
    const StoredArraysOptions& options) {
  return CatchBadAlloc([&]() -> Result<std::unique_ptr<Checkpoint>> {
    std::vector<Item::ArrayRequest> requests;
    for (const std::string& name : names) {
      requests.push_back({name, options.metadata_key});
    }
    OpenOptions open;
    open.missing_chunks = options.raise_array_data_missing_error
                              ? MissingChunks::kRefuse
                              : MissingChunks::kFill;
    HF_ASSIGN_OR_RETURN(std::unique_ptr<Item> item,
                        Item::OpenArrays(AbsolutePath(directory),
                                         options.use_ocdbt, requests, open));
    return std::unique_ptr<Checkpoint>(
        OpenedCheckpoint::OfItem(std::move(item)));
  });
}

}  // namespace holdfast
