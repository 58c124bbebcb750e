// Saves a training state of about 64 MB, as a trainer would, or loads it and
// compares every leaf with what was saved. scripts/demo runs this program.
//
//   example_demo_state save CHECKPOINT
//   example_demo_state check CHECKPOINT     exit status 1: damaged or different
#include <holdfast/holdfast.h>

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

namespace {

using holdfast::Array;
using holdfast::DType;
using holdfast::Shape;
using holdfast::Tree;

constexpr int kLayerCount = 3;
constexpr int64_t kWidth = 384;
constexpr int64_t kVocabulary = 2880;

// Makes approximately normal random numbers. The sequence depends only on the
// seed.
class Normal {
 public:
  explicit Normal(uint64_t seed) : state_(seed) {}

  float Next(float deviation) {
    // The sum of four 16-bit uniforms has a deviation of about 37837.
    state_ += 0x9E3779B97F4A7C15;
    uint64_t bits = (state_ ^ (state_ >> 30)) * 0xBF58476D1CE4E5B9;
    bits = (bits ^ (bits >> 27)) * 0x94D049BB133111EB;
    bits ^= bits >> 31;
    int64_t sum = -131070;
    for (int i = 0; i < 4; ++i) sum += bits >> (16 * i) & 0xFFFF;
    return deviation * static_cast<float>(sum) / 37837;
  }

 private:
  uint64_t state_;
};

enum class Role { kWeight, kFirstMoment, kSecondMoment };

// Returns a jax.Array: bfloat16 weights, or float32 moments like Adam's.
Tree MakeArray(Role role, const Shape& shape, uint64_t seed) {
  Normal normal(seed);
  const bool is_weight = role == Role::kWeight;
  auto array =
      Array::Allocate(is_weight ? DType::kBfloat16 : DType::kFloat32, shape);
  if (!array.ok()) return Tree::None();
  char* bytes = array->mutable_view().data;
  const int64_t count = holdfast::ElementCount(shape);
  for (int64_t i = 0; i < count; ++i) {
    float value = normal.Next(is_weight ? 0.02f : 1e-3f);
    if (role == Role::kSecondMoment) value *= value;
    uint32_t bits;
    std::memcpy(&bits, &value, sizeof bits);
    const uint16_t upper = bits >> 16;
    if (is_weight) {
      std::memcpy(bytes + 2 * i, &upper, sizeof upper);
    } else {
      std::memcpy(bytes + 4 * i, &bits, sizeof bits);
    }
  }
  return Tree::JaxArray(*std::move(array));
}

// Returns the arrays of a model: its weights, or one of its moments.
Tree MakeParameters(Role role) {
  uint64_t seed = 1000 * static_cast<uint64_t>(role);
  const auto make = [&](Shape shape) { return MakeArray(role, shape, ++seed); };
  Tree parameters = Tree::Dict({{"embed", make({kVocabulary, kWidth})}});
  for (int layer = 0; layer < kLayerCount; ++layer) {
    parameters.Add(
        "layer_" + std::to_string(layer),
        Tree::Dict({
            {"attention", Tree::Dict({{"qkv", make({kWidth, 3 * kWidth})},
                                      {"out", make({kWidth, kWidth})}})},
            {"mlp", Tree::Dict({{"up", make({kWidth, 4 * kWidth})},
                                {"down", make({4 * kWidth, kWidth})}})},
            {"norm", Tree::Dict({{"scale", make({kWidth})}})},
        }));
  }
  return parameters;
}

Tree MakeState() {
  const uint32_t rng_key[2] = {0, 42};
  Tree adam = Tree::NamedTuple("optax", "ScaleByAdamState",
                               {{"count", 1200},
                                {"mu", MakeParameters(Role::kFirstMoment)},
                                {"nu", MakeParameters(Role::kSecondMoment)}});
  return Tree::Dict({
      {"config", R"({"layers": 3, "width": 384, "learning_rate": 0.0003})"},
      {"opt_state", Tree::Tuple({std::move(adam), Tree::None()})},
      {"params", MakeParameters(Role::kWeight)},
      {"rng", Array::FromBytes(DType::kUint32, {2}, rng_key)},
      {"step", 1200},
  });
}

// Counts equal leaves. Containers may differ in kind: without a target, a tuple
// is loaded as a list and a named tuple as a dict.
void Compare(const Tree& want, const Tree* got, const std::string& name,
             int& equal_count, int& leaf_count) {
  if (want.is_leaf()) {
    ++leaf_count;
    if (got != nullptr && *got == want) {
      ++equal_count;
    } else {
      std::printf("  %s differs\n", name.c_str());
    }
    return;
  }
  for (size_t i = 0; i < want.size(); ++i) {
    const std::string key =
        want.is_mapping() ? want.keys()[i] : std::to_string(i);
    Compare(want.children()[i], got == nullptr ? nullptr : got->Find(key),
            name.empty() ? key : name + "." + key, equal_count, leaf_count);
  }
}

void PrintStats(const char* verb, const holdfast::Stats& stats) {
  const double megabytes = static_cast<double>(stats.decoded_bytes) / 1e6;
  std::printf("%s %.1f MB of tensors (%.1f MB stored) in %.3f s\n", verb,
              megabytes, static_cast<double>(stats.stored_bytes) / 1e6,
              stats.total_seconds);
}

int Fail(const holdfast::Status& status) {
  std::printf("%s\n", status.ToString().c_str());
  return 1;
}

int Save(const std::string& path) {
  const auto saved = holdfast::Save(path, MakeState());
  if (!saved.ok()) return Fail(saved.status());
  PrintStats("saved", saved->stats);
  return 0;
}

int Check(const std::string& path) {
  const auto loaded = holdfast::Load(path);
  if (!loaded.ok()) return Fail(loaded.status());
  PrintStats("restored", loaded->stats);
  int equal_count = 0, leaf_count = 0;
  Compare(MakeState(), &loaded->tree, "", equal_count, leaf_count);
  std::printf("%d of %d leaves are equal to what was saved\n", equal_count,
              leaf_count);
  return equal_count == leaf_count ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string verb = argc == 3 ? argv[1] : "";
  if (verb == "save") return Save(argv[2]);
  if (verb == "check") return Check(argv[2]);
  std::fprintf(stderr, "usage: %s save|check CHECKPOINT\n", argv[0]);
  return 2;
}
