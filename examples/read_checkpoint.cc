// Reads a float32 array from a checkpoint that a Python program wrote, and
// prints its shape and sum.
//
//   example_read_checkpoint PATH NAME
#include <holdfast/holdfast.h>

#include <cstdio>
#include <numeric>

namespace {

int Fail(const holdfast::Status& status) {
  std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return 1;
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
  const auto values = array->As<float>();
  if (!values.ok()) return Fail(values.status());
  std::printf("%s: float32 %s, sum %.3f\n", argv[2],
              holdfast::ShapeToString(array->shape()).c_str(),
              std::accumulate(values->begin(), values->end(), 0.0));
  return 0;
}
