#include "tools/deltas/memory_checkpoint.h"

#include <utility>

#include "engine/restore/leaf_request.h"
#include "ground/run/run.h"
#include "ground/tensor/box.h"
#include "ground/tensor/copy.h"

namespace holdfast {

MemoryCheckpoint::MemoryCheckpoint(const std::vector<Follower::Target>& arrays,
                                   std::string path, std::string result_id) {
  info_ = OneItemInfo(std::move(path), "memory");
  info_.result_id = std::move(result_id);
  for (const Follower::Target& array : arrays) {
    LeafInfo& leaf =
        infos_.emplace_back(NamedLeaf(array.name, ValueKind::kArray));
    leaf.dtype = array.memory.dtype;
    leaf.shape = array.memory.shape;
    memory_.push_back(array.memory);
  }
}

Result<Stats> MemoryCheckpoint::DoReadInto(
    const std::vector<ReadRequest>& requests, const RunOptions& options) const {
  Run run(options);
  const Status copied = run.executor().ParallelFor(
      requests.size(),
      [&](size_t i, int) -> Status {
        const ReadRequest& request = requests[i];
        ConvertStrided(
            ConstArrayView(Subview(memory_[request.leaf],
                                   {request.origin, request.target.shape})),
            request.target);
        return Status();
      },
      &run.cancel());
  if (!copied.ok()) return copied;
  return Stats();
}

Result<std::string> MemoryCheckpoint::DoReadText(size_t) const {
  return InternalError("memory holds no texts");
}

}  // namespace holdfast
