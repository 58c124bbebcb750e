// Saves a tree, loads it and compares; exit status 0 if they are equal.

#include <holdfast/holdfast.h>

#include <cstdio>
#include <string>
#include <vector>

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const std::vector<float> values = {1.5f, -2, 0, 3.25f, 1e-30f, 7};
  const holdfast::Tree saved = holdfast::Tree::Dict({
      {"name", "consumer"},
      {"step", 7},
      {"w", holdfast::Array::Of(values, {2, 3}).value()},
  });
  const auto result = holdfast::Save(argv[1], saved);
  if (!result.ok()) {
    std::fprintf(stderr, "%s\n", result.status().ToString().c_str());
    return 1;
  }
  const auto loaded = holdfast::Load(argv[1]);
  if (!loaded.ok()) {
    std::fprintf(stderr, "%s\n", loaded.status().ToString().c_str());
    return 1;
  }
  if (!(loaded->tree == saved)) {
    std::fprintf(stderr, "the tree came back different\n");
    return 1;
  }
  if (holdfast::Version() != HOLDFAST_VERSION) {
    std::fprintf(stderr, "the headers are of another version\n");
    return 1;
  }
  std::printf("holdfast %s: equal\n", HOLDFAST_VERSION);
  return 0;
}
