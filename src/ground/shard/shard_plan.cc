#include "holdfast/shard_plan.h"

#include <algorithm>
#include <cassert>
#include <set>
#include <string>
#include <utility>

#include "ground/base/status_macros.h"
#include "ground/shard/mesh_check.h"
#include "ground/shard/spec_axes.h"

namespace holdfast {
namespace {

// Returns a mesh with one device, which splits nothing.
Mesh MeshOfOne(const SingleDeviceSharding& single) {
  return {.device_ids = {DeviceNumber(single.device_str)}};
}

NamedSharding AsNamed(const Sharding& sharding) {
  if (const auto* named = std::get_if<NamedSharding>(&sharding)) return *named;
  return {MeshOfOne(std::get<SingleDeviceSharding>(sharding)), {}};
}

Status CheckUnique(std::vector<int64_t> device_ids) {
  std::sort(device_ids.begin(), device_ids.end());
  const auto twice = std::adjacent_find(device_ids.begin(), device_ids.end());
  if (twice == device_ids.end()) return Status();
  return InvalidArgumentError("mesh: device " + std::to_string(*twice) +
                              " occurs twice");
}

Status CheckShape(const Shape& shape) {
  for (const int64_t extent : shape) {
    if (extent < 0) {
      return InvalidArgumentError("array of shape " + ShapeToString(shape));
    }
  }
  return Status();
}

}  // namespace

Result<int64_t> RankOfDevice(const DeviceProcesses& processes,
                             int64_t device_id) {
  if (processes.rank_by_device.empty()) {
    if (device_id >= 0 && processes.ids_per_process >= 1) {
      return device_id / processes.ids_per_process;
    }
    return InvalidArgumentError(
        "device " + std::to_string(device_id) + ": no process, with " +
        std::to_string(processes.ids_per_process) + " ids a process");
  }
  const auto found = processes.rank_by_device.find(device_id);
  if (found != processes.rank_by_device.end()) return found->second;
  return InvalidArgumentError("device " + std::to_string(device_id) +
                              ": not among the " +
                              std::to_string(processes.rank_by_device.size()) +
                              " devices that have a process");
}

Result<DeviceProcesses> EvenProcesses(std::span<const Sharding> shardings,
                                      int64_t process_count) {
  std::set<int64_t> ids;
  for (const Sharding& sharding : shardings) {
    const Mesh mesh = AsNamed(sharding).mesh;
    HF_ASSIGN_OR_RETURN(const int64_t device_count, CheckMesh(mesh));
    for (int64_t i = 0; i < device_count; ++i) {
      ids.insert(mesh.device_ids.empty() ? i : mesh.device_ids[i]);
    }
  }
  const int64_t id_count = static_cast<int64_t>(ids.size());
  if (process_count < 1 || id_count % process_count != 0) {
    return InvalidArgumentError(std::to_string(id_count) +
                                " devices cannot be shared evenly by " +
                                std::to_string(process_count) + " processes");
  }
  DeviceProcesses processes;
  int64_t i = 0;
  for (const int64_t id : ids) {
    processes.rank_by_device[id] = i++ / (id_count / process_count);
  }
  return processes;
}

Result<ShardPlanner> ShardPlanner::OfAll(const Sharding& sharding) {
  ShardPlanner planner;
  planner.sharding_ = AsNamed(sharding);
  Mesh& mesh = planner.sharding_.mesh;
  HF_ASSIGN_OR_RETURN(const int64_t device_count, CheckMesh(mesh));
  HF_RETURN_IF_ERROR(CheckUnique(mesh.device_ids));
  HF_ASSIGN_OR_RETURN(planner.spec_axes_, SpecAxes(planner.sharding_));
  planner.devices_.reserve(device_count);
  for (int64_t i = 0; i < device_count; ++i) {
    planner.devices_.push_back(
        {i, mesh.device_ids.empty() ? i : mesh.device_ids[i]});
  }
  mesh.device_ids = {};
  return planner;
}

Result<ShardPlanner> ShardPlanner::OfRank(const Sharding& sharding,
                                          const DeviceProcesses& processes,
                                          int64_t rank) {
  assert(rank >= 0);
  HF_ASSIGN_OR_RETURN(ShardPlanner planner, OfAll(sharding));
  std::vector<Device> mine;
  for (const Device& device : planner.devices_) {
    HF_ASSIGN_OR_RETURN(const int64_t owner,
                        RankOfDevice(processes, device.id));
    if (owner == rank) mine.push_back(device);
  }
  planner.devices_ = std::move(mine);
  return planner;
}

Result<ShardPlanner::Cut> ShardPlanner::CutOf(const Shape& array_shape) const {
  HF_RETURN_IF_ERROR(CheckShape(array_shape));
  Cut cut;
  HF_ASSIGN_OR_RETURN(cut.parts,
                      PartCounts(sharding_, spec_axes_, array_shape));
  cut.moves_box.resize(sharding_.mesh.shape.size());
  for (size_t d = 0; d < spec_axes_.size(); ++d) {
    // All parts of an empty array are the same, so every device holds a
    // replica.
    if (array_shape[d] == 0) continue;
    for (const size_t axis : spec_axes_[d]) cut.moves_box[axis] = true;
  }
  return cut;
}

DeviceShard ShardPlanner::ShardOf(const Device& device,
                                  const Shape& array_shape,
                                  const Cut& cut) const {
  const Shape& mesh_shape = sharding_.mesh.shape;
  Shape coordinates(mesh_shape.size());
  int64_t place = device.place;
  for (size_t axis = mesh_shape.size(); axis-- > 0;) {
    coordinates[axis] = place % mesh_shape[axis];
    place /= mesh_shape[axis];
  }
  DeviceShard shard{device.id, 0, Shape(array_shape.size(), 0), array_shape};
  // Replicas differ in the axes that do not move the box, and are numbered in C
  // order of these axes.
  for (size_t axis = 0; axis < mesh_shape.size(); ++axis) {
    if (cut.moves_box[axis]) continue;
    shard.replica_id = shard.replica_id * mesh_shape[axis] + coordinates[axis];
  }
  for (size_t d = 0; d < spec_axes_.size(); ++d) {
    int64_t part = 0;
    for (const size_t axis : spec_axes_[d]) {
      part = part * mesh_shape[axis] + coordinates[axis];
    }
    shard.shape[d] = array_shape[d] / cut.parts[d];
    shard.origin[d] = part * shard.shape[d];
  }
  return shard;
}

Result<std::vector<DeviceShard>> ShardPlanner::Boxes(
    const Shape& array_shape) const {
  HF_ASSIGN_OR_RETURN(const Cut cut, CutOf(array_shape));
  std::vector<DeviceShard> shards;
  shards.reserve(devices_.size());
  for (const Device& device : devices_) {
    shards.push_back(ShardOf(device, array_shape, cut));
  }
  return shards;
}

Result<WriteLayout> ShardPlanner::Layout(const Shape& array_shape,
                                         int64_t element_bytes,
                                         const ReplicaOptions& options) const {
  assert(element_bytes >= 1);
  HF_ASSIGN_OR_RETURN(const Cut cut, CutOf(array_shape));
  WriteLayout alone;
  for (size_t d = 0; d < array_shape.size(); ++d) {
    alone.shard_shape.push_back(array_shape[d] / cut.parts[d]);
  }
  for (size_t axis = 0; axis < cut.moves_box.size(); ++axis) {
    if (!cut.moves_box[axis]) {
      alone.replica_count *= sharding_.mesh.shape[axis];
    }
  }
  alone.write_shape = alone.shard_shape;
  const int64_t writer_count =
      // Slicing is only possible and useful when some dimension divides evenly
      // among the replicas that write.
      std::min(alone.replica_count, options.max_replicas);
  if (!options.use_replica_parallel || writer_count <= 1 ||
      ElementCount(alone.shard_shape) == 0) {
    return alone;
  }
  const auto divides = [&](int64_t extent) {
    return extent % writer_count == 0;
  };
  const auto found =
      std::find_if(alone.shard_shape.begin(), alone.shard_shape.end(), divides);
  if (found == alone.shard_shape.end()) return alone;
  WriteLayout sliced = alone;
  sliced.writer_count = writer_count;
  sliced.axis = found - alone.shard_shape.begin();
  sliced.write_shape[sliced.axis] /= writer_count;
  // The largest count of elements that is still smaller than min_slice_bytes.
  const int64_t too_few = (options.min_slice_bytes - 1) / element_bytes;
  const bool is_enough = options.min_slice_bytes <= 0 ||
                         ElementCount(sliced.write_shape) > too_few;
  return is_enough ? sliced : alone;
}

Result<std::vector<DeviceShare>> ShardPlanner::Shares(
    const Shape& array_shape, const WriteLayout& layout) const {
  HF_ASSIGN_OR_RETURN(std::vector<DeviceShard> shards, Boxes(array_shape));
  std::vector<DeviceShare> shares;
  shares.reserve(shards.size());
  for (DeviceShard& shard : shards) {
    DeviceShare share{std::move(shard), std::nullopt};
    if (share.shard.replica_id < layout.writer_count) {
      share.write_origin = share.shard.origin;
      if (layout.writer_count > 1) {
        (*share.write_origin)[layout.axis] +=
            share.shard.replica_id * layout.write_shape[layout.axis];
      }
    }
    shares.push_back(std::move(share));
  }
  return shares;
}

}  // namespace holdfast
