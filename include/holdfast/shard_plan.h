// Plans which parts of a sharded array each process holds, writes and needs.
// Any process can compute any process's plan, with the same result and without
// messages.
//
//   auto mine = ShardPlanner::OfRank(sharding, {.ids_per_process = 4}, rank);
//   for (each array) {
//     auto layout = mine->Layout(shape, element_bytes, {});  // same everywhere
//     auto shares = mine->Shares(shape, *layout);  // of this rank's devices
//   }
//
// The devices that hold the same box are its replicas. Either replica 0 writes
// the complete box, or each replica writes a slice of it. This is Orbax's rule,
// so chunks have Orbax's shapes.
// Source: orbax-checkpoint 0.12.8, _src/serialization/replica_slices.py.
//
// Make a planner once per sharding. Each array then takes time in proportion to
// the number of devices that the planner was made for, not to the size of the
// mesh.
//
// Thread-safety: values; const methods may run concurrently.
// Units: elements; bytes where the name says so; ranks count from 0.
// Errors: InvalidArgument for a sharding that ShardBoxes refuses, and for
// devices that occur twice in a mesh or have no process.
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

// Maps each device to its process.
struct DeviceProcesses {
  // Device `id` belongs to process id / ids_per_process. JAX's CPU devices have
  // 2048 ids per process: 0 and 1 belong to the first process, 2048 and 2049 to
  // the second.
  int64_t ids_per_process = 1;
  // If not empty, only this map is used: the rank of each device by its id.
  std::map<int64_t, int64_t> rank_by_device;
};

Result<int64_t> RankOfDevice(const DeviceProcesses& processes,
                             int64_t device_id);

// Assigns all devices of the shardings, by ascending id, to `process_count`
// processes in contiguous blocks of equal size. InvalidArgument if the number
// of devices is not divisible by `process_count`.
Result<DeviceProcesses> EvenProcesses(std::span<const Sharding> shardings,
                                      int64_t process_count);

// Orbax's options with the same names.
struct ReplicaOptions {
  // True is Orbax's default, except on GPUs. Orbax also does not slice small
  // arrays in pinned host memory.
  bool use_replica_parallel = true;
  // If slices would be smaller, replica 0 writes the complete box.
  int64_t min_slice_bytes = 0;
  // At most this many replicas write.
  int64_t max_replicas = std::numeric_limits<int64_t>::max();
};

// How an array is cut. This is the same for all devices.
struct WriteLayout {
  Shape shard_shape;          // of the box that a device holds
  Shape write_shape;          // of the part that a writing device writes
  int64_t replica_count = 1;  // devices that hold the same box
  // Replicas 0 to writer_count - 1 write slices.
  int64_t writer_count = 1;
  // The axis along which the box is sliced.
  size_t axis = 0;

  bool operator==(const WriteLayout&) const = default;
};

// One device's part in one array.
struct DeviceShare {
  DeviceShard shard;  // the part that the device holds
  // Where the part that the device writes begins in the complete array; its
  // shape is WriteLayout::write_shape. Absent if the device writes nothing.
  std::optional<Shape> write_origin;

  bool operator==(const DeviceShare&) const = default;
};

class ShardPlanner {
 public:
  // Makes a planner for all devices.
  static Result<ShardPlanner> OfAll(const Sharding& sharding);
  // Makes a planner for the devices of one process, which may have no devices.
  // REQUIRES: rank >= 0.
  static Result<ShardPlanner> OfRank(const Sharding& sharding,
                                     const DeviceProcesses& processes,
                                     int64_t rank);

  // Returns one shard per device, in the mesh's order.
  Result<std::vector<DeviceShard>> Boxes(const Shape& array_shape) const;
  // Returns how the array is cut. The time does not grow with the number of
  // devices.
  Result<WriteLayout> Layout(const Shape& array_shape, int64_t element_bytes,
                             const ReplicaOptions& options) const;
  // Returns one share per device, in the mesh's order. `layout` is the result
  // of Layout for the same shape.
  Result<std::vector<DeviceShare>> Shares(const Shape& array_shape,
                                          const WriteLayout& layout) const;

 private:
  struct Device {
    int64_t place = 0;  // in the mesh, in C order
    int64_t id = 0;
  };
  // How the spec cuts one array.
  struct Cut {
    Shape parts;  // in each dimension
    // For each axis of the mesh: true when moving along it changes the box.
    std::vector<bool> moves_box;
  };

  ShardPlanner() = default;
  Result<Cut> CutOf(const Shape& array_shape) const;
  DeviceShard ShardOf(const Device& device, const Shape& array_shape,
                      const Cut& cut) const;

  // Its mesh has no device ids; those are in devices_.
  NamedSharding sharding_;
  std::vector<std::vector<size_t>> spec_axes_;  // axes of each spec entry
  std::vector<Device> devices_;
};

// How much must be read from an array that is stored in chunks.
struct ChunkNeed {
  int64_t chunk_count = 0;    // chunks that the boxes touch
  int64_t read_elements = 0;  // in these chunks, inside the array
  int64_t need_elements = 0;  // in the boxes; shared elements count once
};

// Returns what must be read to get the boxes. REQUIRES: the boxes are inside
// the array, and the chunk's extents are at least 1.
ChunkNeed NeedOfBoxes(const Shape& array_shape, const Shape& chunk_shape,
                      std::span<const DeviceShard> boxes);

}  // namespace holdfast
