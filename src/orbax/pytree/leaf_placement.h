// The parts of a restored jax.Array: its sharding, the boxes into which the
// sharding divides the wanted shape, and the stored part of each box.
//
// Thread-safety: a Placer is used by one thread. Ownership: placements are
// shared. Units: elements.
// Errors: InvalidArgument with Orbax's messages; those of ShardBoxes.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ground/tensor/box.h"
#include "holdfast/orbax/pytree_checkpoint_handler.h"
#include "holdfast/restore_args.h"
#include "holdfast/tree.h"
#include "orbax/pytree/item_source.h"

namespace holdfast {

struct LeafPlacement {
  Shape shape;  // of the complete array
  // Distinct boxes. Together they are the complete array, or this process's
  // share, which may be empty.
  std::vector<Box> boxes;
  std::shared_ptr<const ArrayTraits> traits;
};

// Returns the shape that the arguments request; nullopt means the stored shape.
// InvalidArgument if two requested shapes differ.
Result<std::optional<Shape>> WantedShape(const AnyRestoreArgs& args);

// Returns the boxes of all devices, or of the devices that `processes` assigns
// to this process.
Result<std::vector<Box>> DistinctBoxes(const Sharding& sharding,
                                       const Shape& shape,
                                       const MultiprocessingOptions& processes);

// Computes placements; leaves with equal placements share one.
class Placer {
 public:
  Placer(const ItemSource& source, const MultiprocessingOptions& processes)
      : source_(source), processes_(processes) {}

  Result<std::shared_ptr<const LeafPlacement>> Place(
      const LeafInfo& leaf, const AnyRestoreArgs& args);

 private:
  struct NamedSharding {
    Sharding sharding;
    std::string json;
    bool is_recorded = false;
  };
  Result<NamedSharding> ShardingFor(const LeafInfo& leaf,
                                    const AnyRestoreArgs& args);
  Result<NamedSharding> RecordedSharding(const LeafInfo& leaf) const;

  const ItemSource& source_;
  const MultiprocessingOptions& processes_;
  std::map<std::string, std::shared_ptr<const LeafPlacement>> placements_;
};

}  // namespace holdfast
