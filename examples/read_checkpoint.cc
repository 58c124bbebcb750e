// Reads one value out of a checkpoint that a Python program wrote:
//   example_read_checkpoint PATH NAME
// prints dtype, shape and the sum of a float32 array, read in one call.
#include <holdfast/holdfast.h>

#include <cstdio>

namespace {

int Fail(const holdfast::Status& status) {
  std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return 1;
}

double Sum(const holdfast::Array& array) {
  const auto* values = reinterpret_cast<const float*>(array.view().data);
  double sum = 0;
  for (int64_t i = 0; i < array.element_count(); ++i) sum += values[i];
  return sum;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: %s PATH NAME\n", argv[0]);
    return 2;
  }
  const auto checkpoint = holdfast::Open(argv[1]);
  if (!checkpoint.ok()) return Fail(checkpoint.status());
  const auto leaf = (*checkpoint)->Find(argv[2]);
  if (!leaf.ok()) return Fail(leaf.status());
  const auto array = (*checkpoint)->Read(*leaf);
  if (!array.ok()) return Fail(array.status());
  if (array->dtype() != holdfast::DType::kFloat32) {
    std::fprintf(stderr, "%s is no float32 array\n", argv[2]);
    return 1;
  }
  std::printf("%s: float32 %s, sum %.3f\n", argv[2],
              holdfast::ShapeToString(array->shape()).c_str(), Sum(*array));
  return 0;
}
