// Which process holds, writes and needs which part of a sharded array: worked
// out by any process for any process, alike and without a message.
//
//   auto mine = ShardPlanner::OfRank(sharding, {.ids_per_process = 4}, rank);
//   for (each array) {
//     // Alike on all ranks; then what this rank's devices do.
//     auto layout = mine->Layout(shape, element_bytes, {});
//     auto shares = mine->Shares(shape, *layout);
//   }
//
// The devices that hold the same box are its replicas. Either replica 0 writes
// the whole box, or the replicas write a slice of it each: Orbax's rule, so
// that chunks are the same as Orbax's.
// Source: orbax-checkpoint 0.12.8, _src/serialization/replica_slices.py.
//
// A planner is made once for a sharding; then an array costs time in proportion
// to the devices it was made for, not to all of the mesh.
//
// Thread-safety: values; const methods may run concurrently.
// Units: elements; bytes where the name says so; ranks count from 0.
// Errors: InvalidArgument, for a sharding as ShardBoxes gives it; for devices
// that occur twice in a mesh, or have no process.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "holdfast/export.h"
#include "holdfast/sharding.h"
#include "holdfast/status.h"
#include "holdfast/tensor.h"

namespace holdfast HOLDFAST_EXPORT {

// The process of each device.
struct DeviceProcesses {
  // Device `id` belongs to process id / ids_per_process. JAX's CPU devices have
  // 2048 ids a process: 0 and 1 are the first's, 2048 and 2049 the second's.
  int64_t ids_per_process = 1;
  // When not empty, only this counts: the rank of each device by its id.
  std::map<int64_t, int64_t> rank_by_device;
};

Result<int64_t> RankOfDevice(const DeviceProcesses& processes,
                             int64_t device_id);

// All devices of the shardings, by ascending id, to `process_count` processes
// in contiguous blocks of equal size. InvalidArgument when it does not divide
// their number.
Result<DeviceProcesses> EvenProcesses(std::span<const Sharding> shardings,
                                      int64_t process_count);

// Orbax's options of these names.
struct ReplicaOptions {
  // Orbax's default, but for GPUs; its code also leaves small arrays in pinned
  // host memory uncut.
  bool use_replica_parallel = true;
  // Smaller slices are not worth it: replica 0 writes the whole.
  int64_t min_slice_bytes = 0;
  // No more replicas than this write.
  int64_t max_replicas = std::numeric_limits<int64_t>::max();
};

// How an array is cut: alike for all devices.
struct WriteLayout {
  Shape shard_shape;          // of what a device holds
  Shape write_shape;          // of what a device writes, if it does
  int64_t replica_count = 1;  // devices that hold the same box
  // Replicas 0 to writer_count - 1 write.
  int64_t writer_count = 1;
  // They share the box along this axis.
  size_t axis = 0;

  bool operator==(const WriteLayout&) const = default;
};

// The part of one device in one array.
struct DeviceShare {
  DeviceShard shard;  // what it holds
  // The part that it writes begins here, in the whole array, with the shape
  // WriteLayout::write_shape; absent: it writes nothing.
  std::optional<Shape> write_origin;

  bool operator==(const DeviceShare&) const = default;
};

class ShardPlanner {
 public:
  // Plans for all devices.
  static Result<ShardPlanner> OfAll(const Sharding& sharding);
  // Plans for the devices of one process, which may have none. REQUIRES: rank
  // >= 0.
  static Result<ShardPlanner> OfRank(const Sharding& sharding,
                                     const DeviceProcesses& processes,
                                     int64_t rank);

  // One a device, in the mesh's order.
  Result<std::vector<DeviceShard>> Boxes(const Shape& array_shape) const;
  // Takes no time that grows with the number of devices.
  Result<WriteLayout> Layout(const Shape& array_shape, int64_t element_bytes,
                             const ReplicaOptions& options) const;
  // One a device, in the mesh's order. `layout` is what Layout gave for the
  // same shape.
  Result<std::vector<DeviceShare>> Shares(const Shape& array_shape,
                                          const WriteLayout& layout) const;

 private:
  struct Device {
    int64_t place = 0;  // in the mesh, in C order
    int64_t id = 0;
  };
  // How the spec cuts one array.
  struct Cut {
    Shape parts;  // of each dimension
    // For each axis of the mesh: true when moving along it changes the box.
    std::vector<bool> moves_box;
  };

  ShardPlanner() = default;
  Result<Cut> CutOf(const Shape& array_shape) const;
  DeviceShard ShardOf(const Device& device, const Shape& array_shape,
                      const Cut& cut) const;

  // Has no device ids: those are in devices_.
  NamedSharding sharding_;
  std::vector<std::vector<size_t>> spec_axes_;  // one entry a spec's
  std::vector<Device> devices_;
};

// The bytes and chunks that must be read of an array that is stored in chunks.
struct ChunkNeed {
  int64_t chunk_count = 0;    // chunks that the boxes touch
  int64_t read_elements = 0;  // in them, without what sticks out of the array
  int64_t need_elements = 0;  // in the boxes; what they share counts once
};

// REQUIRES: boxes inside the array; chunk extents of at least 1.
ChunkNeed NeedOfBoxes(const Shape& array_shape, const Shape& chunk_shape,
                      std::span<const DeviceShard> boxes);

}  // namespace holdfast
