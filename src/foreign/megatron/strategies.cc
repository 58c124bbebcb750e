#include <map>
#include <mutex>
#include <tuple>

#include "foreign/megatron/error.h"
#include "foreign/megatron/python_text.h"
#include "holdfast/megatron/zarr.h"

namespace holdfast::megatron {
namespace {

// The strategy of common.pt, used only for lookups. holdfast reads and writes
// the file in the same way for every strategy.
class TorchCommonStrategy : public Strategy {
 public:
  TorchCommonStrategy(std::string_view name, std::string backend,
                      int64_t version)
      : Strategy(std::move(backend), version), name_(name) {}
  std::string_view class_name() const override { return name_; }

 private:
  const std::string_view name_;
};

using StrategyKey = std::tuple<StrategyAction, std::string, int64_t>;

struct StrategyTable {
  std::mutex mutex;
  std::map<StrategyKey, std::shared_ptr<const Strategy>> strategies;

  StrategyTable() {
    strategies[{StrategyAction::kLoadCommon, "torch", 1}] =
        std::make_shared<TorchCommonStrategy>("TorchCommonLoadStrategy",
                                              "torch", 1);
    strategies[{StrategyAction::kSaveCommon, "torch", 1}] =
        std::make_shared<TorchCommonStrategy>("TorchCommonSaveStrategy",
                                              "torch", 1);
    AddZarr();
  }
  void AddZarr() {
    strategies[{StrategyAction::kSaveSharded, "zarr", 1}] =
        std::make_shared<ZarrSaveShardedStrategy>();
    strategies[{StrategyAction::kLoadSharded, "zarr", 1}] =
        std::make_shared<TensorStoreLoadShardedStrategy>();
  }
};

StrategyTable& Table() {
  static StrategyTable* const table = new StrategyTable;
  return *table;
}

// Returns what the back end is, and how to convert it.
std::string BackendAdvice(const ConfigValue& backend) {
  const auto* name = std::get_if<std::string>(&backend);
  if (name == nullptr) return "it is not the name of a back end";
  if (*name == "torch_dist") {
    return "it is a PyTorch distributed checkpoint (torch_dist): `holdfast "
           "convert SRC DST --to megatron-zarr` makes a zarr checkpoint of it";
  }
  if (*name == "fully_sharded_model_space" || *name == "fsdp_dtensor" ||
      *name == "torch_dcp") {
    return "it is a PyTorch distributed checkpoint: `holdfast convert SRC DST "
           "--to megatron-zarr` may make a zarr checkpoint of it";
  }
  return "holdfast knows the back ends zarr and torch_dist";
}

}  // namespace

std::string_view StrategyActionName(StrategyAction action) {
  constexpr std::string_view kNames[] = {"load_common", "load_sharded",
                                         "save_common", "save_sharded"};
  return kNames[static_cast<size_t>(action)];
}

std::string Strategy::ToString() const {
  return std::string(class_name()) + "(" + backend_ + ", " +
         std::to_string(version_) + ")";
}

void RegisterDefaultStrategy(StrategyAction action, std::string backend,
                             int64_t version,
                             std::shared_ptr<const Strategy> strategy) {
  StrategyTable& table = Table();
  std::lock_guard lock(table.mutex);
  table.strategies[{action, std::move(backend), version}] = std::move(strategy);
}

void RegisterDefaultZarrStrategies() {
  StrategyTable& table = Table();
  std::lock_guard lock(table.mutex);
  table.AddZarr();
}

Result<std::shared_ptr<const Strategy>> GetDefaultStrategy(
    StrategyAction action, const ConfigValue& backend,
    const ConfigValue& version) {
  const auto* name = std::get_if<std::string>(&backend);
  const auto* number = std::get_if<int64_t>(&version);
  if (name != nullptr && number != nullptr) {
    StrategyTable& table = Table();
    std::lock_guard lock(table.mutex);
    const auto found = table.strategies.find({action, *name, *number});
    if (found != table.strategies.end()) return found->second;
  }
  std::string text = "Cannot find a default strategy for: (" +
                     PythonRepr(StrategyActionName(action)) + ", " +
                     ConfigValueRepr(backend) + ", " +
                     ConfigValueRepr(version) + ")";
  if (action == StrategyAction::kLoadSharded) {
    const bool is_zarr = name != nullptr && *name == "zarr";
    text += is_zarr ? ": holdfast reads version 1 of zarr checkpoints"
                    : ": " + BackendAdvice(backend);
  }
  return CheckpointingError(StatusCode::kUnimplemented, "UNKNOWN_STRATEGY",
                            text);
}

Status ZarrLoadShardedStrategy::CheckBackendCompatibility(
    const ConfigValue& loaded_backend) const {
  if (loaded_backend == ConfigValue(backend())) return Status();
  return CheckpointingError(StatusCode::kUnimplemented, "UNKNOWN_STRATEGY",
                            ToString() +
                                " cannot load a checkpoint of the back end " +
                                ConfigValueRepr(loaded_backend) + ": " +
                                BackendAdvice(loaded_backend));
}

Status ZarrLoadShardedStrategy::CheckVersionCompatibility(
    const ConfigValue& loaded_version) const {
  if (loaded_version == ConfigValue(version())) return Status();
  const auto* number = std::get_if<int64_t>(&loaded_version);
  const bool is_newer = number != nullptr && *number > version();
  return CheckpointingError(StatusCode::kUnimplemented, "UNKNOWN_STRATEGY",
                            ToString() + " cannot load version " +
                                ConfigValueRepr(loaded_version) +
                                (is_newer ? ": a newer writer made it" : ""));
}

}  // namespace holdfast::megatron
