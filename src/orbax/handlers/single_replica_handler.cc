#include "ground/base/status_macros.h"
#include "holdfast/orbax/type_handlers.h"

namespace holdfast {
namespace {

std::string ArgsClassName(const AnyRestoreArgs& args) {
  return AsArrayRestoreArgs(args) != nullptr ? "ArrayRestoreArgs"
                                             : "RestoreArgs";
}

// Checks that the devices have a replica axis, because one replica reads for
// all.
Status CheckReplicas(const Sharding& sharding,
                     const SingleReplicaArrayHandler::Options& options) {
  const auto* named = std::get_if<NamedSharding>(&sharding);
  if (named == nullptr) {
    return InvalidArgumentError(
        "The provided sharding is not a NamedSharding. Please use "
        "NamedSharding instead.");
  }
  const Shape& mesh = named->mesh.shape;
  const int axis = options.replica_axis_index;
  if (axis < 0 || static_cast<size_t>(axis) >= mesh.size() ||
      options.primary_replica_id < 0 ||
      options.primary_replica_id >= mesh[axis]) {
    return InvalidArgumentError("The provided sharding has no replica " +
                                std::to_string(options.primary_replica_id) +
                                " along axis " + std::to_string(axis) +
                                " of its mesh of shape " + ShapeToString(mesh));
  }
  if (mesh[axis] > 1) return Status();
  return InvalidArgumentError(
      "All devices are in the primary replica. There are no non-primary "
      "replicas to broadcast to.");
}

}  // namespace

Result<std::vector<Tree>> SingleReplicaArrayHandler::Deserialize(
    std::span<const ParamInfo> infos, std::span<const AnyRestoreArgs> args) {
  if (args.empty()) {
    return InvalidArgumentError(
        "Must provide SingleReplicaArrayRestoreArgs to restore as jax.Array.");
  }
  HF_RETURN_IF_ERROR(CheckInputArguments({infos.size(), args.size()}));
  for (const AnyRestoreArgs& any : args) {
    const auto* single = std::get_if<SingleReplicaArrayRestoreArgs>(&any);
    if (single == nullptr) {
      return InvalidArgumentError(
          "Must provide `SingleReplicaArrayRestoreArgs`, but got " +
          ArgsClassName(any) + ".");
    }
    if (!single->sharding) {
      return InvalidArgumentError(
          "Must provide `sharding` to restore with "
          "`SingleReplicaArrayHandler`.");
    }
    HF_RETURN_IF_ERROR(CheckReplicas(*single->sharding, replica_options_));
  }
  return ArrayHandler::Deserialize(infos, args);
}

}  // namespace holdfast
