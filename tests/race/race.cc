#include "race/race.h"

#include <vector>

namespace holdfast {
namespace {

constexpr int64_t kLeafCount = 8;
constexpr int64_t kElementCount = 300;

std::string LeafName(int64_t i) { return "w" + std::to_string(i); }

}  // namespace

void RaceCounts::Add(const RaceCounts& other) {
  rounds += other.rounds;
  saved += other.saved;
  refused += other.refused;
  whole += other.whole;
  died += other.died;
  violations += other.violations;
  for (const auto& [code, count] : other.unread) unread[code] += count;
}

std::string RaceCounts::ToString() const {
  std::string text = std::to_string(rounds) +
                     " rounds: " + std::to_string(saved) +
                     " saves acknowledged, " + std::to_string(refused) +
                     " refused, " + std::to_string(whole) + " loads whole";
  for (const auto& [code, count] : unread) {
    text += ", " + std::to_string(count) + " " + code;
  }
  return text + ", " + std::to_string(died) + " died; " +
         std::to_string(violations) + " violations";
}

Tree TreeOfNumber(int64_t number) {
  const std::vector<int64_t> values(kElementCount, number);
  Tree tree = Tree::Dict();
  for (int64_t i = 0; i < kLeafCount; ++i) {
    const Array array = Array::FromBytes(
        DType::kInt64, {kElementCount / 10, 10}, values.data());
    tree.Add(LeafName(i), i == 0 ? Tree::JaxArray(array) : Tree(array));
  }
  tree.Add("step", Tree(number));
  return tree;
}

int64_t NumberOfTree(const Tree& tree) {
  int64_t number = -1;
  for (int64_t i = 0; i < kLeafCount; ++i) {
    const Tree* const leaf = tree.Find(LeafName(i));
    if (leaf == nullptr || !leaf->is_leaf()) return -1;
    const Array& array = leaf->array();
    if (array.byte_count() != kElementCount * sizeof(int64_t)) return -1;
    const auto* values = reinterpret_cast<const int64_t*>(array.view().data);
    if (i == 0) number = values[0];
    for (int64_t k = 0; k < kElementCount; ++k) {
      if (values[k] != number) return -1;
    }
  }
  return number;
}

}  // namespace holdfast
