// Saves a small tree, loads it back, and reads one row of one array.
//
//   example_save_and_load DIRECTORY
#include <holdfast/holdfast.h>

#include <cstdio>
#include <string>
#include <vector>

namespace {

int Fail(const holdfast::Status& status) {
  std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: %s DIRECTORY\n", argv[0]);
    return 2;
  }
  const std::string path = std::string(argv[1]) + "/checkpoint";

  const std::vector<float> values = {0, 1, 2, 3, 4, 5};
  const auto weights = holdfast::Array::Of(values, {2, 3});
  if (!weights.ok()) return Fail(weights.status());
  const holdfast::Tree state = holdfast::Tree::Dict({
      {"params", holdfast::Tree::Dict({{"w", *weights}})},
      {"step", 7},
  });
  const auto saved = holdfast::Save(path, state);
  if (!saved.ok()) return Fail(saved.status());

  const auto loaded = holdfast::Load(path);
  if (!loaded.ok()) return Fail(loaded.status());
  const bool is_same = loaded->tree == state;
  std::printf("the tree came back %s\n", is_same ? "the same" : "different");

  const auto checkpoint = holdfast::Open(path);
  if (!checkpoint.ok()) return Fail(checkpoint.status());
  const auto leaf = (*checkpoint)->Find("params.w");
  if (!leaf.ok()) return Fail(leaf.status());
  const auto row = (*checkpoint)->ReadBox(*leaf, {1, 0}, {1, 3});
  if (!row.ok()) return Fail(row.status());
  const auto read = row->As<float>();
  if (!read.ok()) return Fail(read.status());
  std::printf("params.w[1] = %g %g %g\n", (*read)[0], (*read)[1], (*read)[2]);
  return is_same ? 0 : 1;
}
