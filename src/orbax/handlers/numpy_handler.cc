#include <utility>

#include "ground/base/no_throw.h"
#include "ground/base/status_macros.h"
#include "holdfast/orbax/type_handlers.h"
#include "orbax/handlers/done_future.h"
#include "orbax/handlers/param_reader.h"
#include "orbax/handlers/param_writer.h"

namespace holdfast {

Result<std::vector<ValueMetadata>> NumpyHandler::Metadata(
    std::span<const ParamInfo> infos) {
  return CatchBadAlloc([&]() -> Result<std::vector<ValueMetadata>> {
    HF_ASSIGN_OR_RETURN(const ParamArrays params,
                        ParamArrays::Open(infos, options_.metadata_key));
    std::vector<ValueMetadata> metadatas;
    for (size_t i = 0; i < infos.size(); ++i) {
      metadatas.push_back(params.Describe(i, infos[i]));
    }
    return metadatas;
  });
}

Result<std::vector<CommitFuture>> NumpyHandler::Serialize(
    std::span<const Tree* const> values, std::span<const ParamInfo> infos,
    std::span<const SaveArgs> args) {
  const size_t arg_count = args.empty() ? values.size() : args.size();
  HF_RETURN_IF_ERROR(
      CheckInputArguments({values.size(), infos.size(), arg_count}));
  HF_RETURN_IF_ERROR(CheckArrayValues(values, infos));
  return CatchBadAlloc([&]() -> Result<std::vector<CommitFuture>> {
    HF_RETURN_IF_ERROR(
        WriteParams(values, infos, args,
                    {options_.metadata_key, options_.ocdbt_process_id})
            .status());
    return std::vector<CommitFuture>{DoneFuture()};
  });
}

Result<std::vector<Tree>> NumpyHandler::Deserialize(
    std::span<const ParamInfo> infos, std::span<const AnyRestoreArgs> args) {
  const size_t arg_count = args.empty() ? infos.size() : args.size();
  HF_RETURN_IF_ERROR(CheckInputArguments({infos.size(), arg_count}));
  return CatchBadAlloc([&]() -> Result<std::vector<Tree>> {
    HF_ASSIGN_OR_RETURN(const ParamArrays params,
                        ParamArrays::Open(infos, options_.metadata_key));
    std::vector<BoxRead> reads;
    for (size_t i = 0; i < infos.size(); ++i) {
      reads.push_back({i, BoxOf(params.shape(i)),
                       args.empty() ? std::nullopt : RestoreDType(args[i])});
    }
    HF_ASSIGN_OR_RETURN(std::vector<Array> arrays, ReadBoxes(params, reads));
    return std::vector<Tree>(std::make_move_iterator(arrays.begin()),
                             std::make_move_iterator(arrays.end()));
  });
}

Status NumpyHandler::Finalize(const std::string& directory) {
  return MergeOcdbtPerProcessFiles(directory);
}

}  // namespace holdfast
