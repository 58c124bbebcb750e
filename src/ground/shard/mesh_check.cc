#include "ground/shard/mesh_check.h"

#include <string>

namespace holdfast {
namespace {

Status CountError(const char* what, size_t got, size_t want) {
  return InvalidArgumentError("mesh: " + std::to_string(got) + " " + what +
                              " (want " + std::to_string(want) + ")");
}

}  // namespace

Result<int64_t> CheckMesh(const Mesh& mesh) {
  if (mesh.axis_names.size() != mesh.shape.size()) {
    return CountError("axis names", mesh.axis_names.size(), mesh.shape.size());
  }
  if (!mesh.axis_types.empty() && mesh.axis_types.size() != mesh.shape.size()) {
    return CountError("axis types", mesh.axis_types.size(), mesh.shape.size());
  }
  if (mesh.shape.size() > kMeshRankMax) {
    return CountError("axes", mesh.shape.size(), kMeshRankMax);
  }
  int64_t device_count = 1;
  for (const int64_t extent : mesh.shape) {
    if (extent < 1 || extent > kMeshDevicesMax / device_count) {
      return InvalidArgumentError("mesh: shape " + ShapeToString(mesh.shape) +
                                  " is not that of a grid of devices");
    }
    device_count *= extent;
  }
  const size_t id_count = mesh.device_ids.size();
  if (id_count != 0 && id_count != static_cast<size_t>(device_count)) {
    return CountError("device ids", id_count, device_count);
  }
  return device_count;
}

}  // namespace holdfast
