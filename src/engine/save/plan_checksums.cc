#include "engine/save/plan_checksums.h"

#include <algorithm>

#include "ground/base/crc32c.h"

namespace holdfast {
namespace {

size_t BucketOf(std::string_view name) {
  return Crc32c(name) % kLeafBucketCount;
}

// Stores texts and lists with their lengths, so that different records never
// concatenate to the same bytes.
class Record {
 public:
  void Add(std::string_view text) {
    AddNumber(text.size());
    text_ += text;
  }
  void Add(const Shape& shape) {
    AddNumber(shape.size());
    for (const int64_t extent : shape) AddNumber(extent);
  }
  std::string_view text() const { return text_; }
  void Clear() { text_.clear(); }

 private:
  void AddNumber(uint64_t value) {
    char bytes[8];
    for (char& byte : bytes) {
      byte = static_cast<char>(value);
      value >>= 8;
    }
    text_.append(bytes, sizeof bytes);
  }

  std::string text_;
};

}  // namespace

PlanChecksums ChecksumsOf(const SavePlan& plan) {
  PlanChecksums checksums;
  checksums.leaf_count = plan.leaves.size();
  Record record;
  const auto close = [&](const std::string& name) {
    uint32_t& bucket = checksums.buckets[BucketOf(name)];
    bucket = ExtendCrc32c(bucket, record.text());
    record.Clear();
  };
  for (const FlatLeaf& leaf : plan.leaves) {
    const std::string name = ParamName(leaf.path);
    record.Add(name);
    record.Add(leaf.value_type);
    close(name);
  }
  for (const PlannedArray& array : plan.arrays) {
    record.Add(array.name);
    record.Add(array.layout->metadata_text);
    record.Add(array.layout->write_shape);
    if (array.source.is_sharded()) {
      record.Add(plan.leaves[array.leaf].leaf->sharding_json());
    }
    close(array.name);
  }
  return checksums;
}

std::vector<std::string> SuspectLeaves(const std::vector<std::string>& names,
                                       const PlanChecksums& a,
                                       const PlanChecksums& b,
                                       size_t count_max) {
  std::vector<std::string> suspects;
  for (const std::string& name : names) {
    const size_t bucket = BucketOf(name);
    if (a.buckets[bucket] != b.buckets[bucket]) suspects.push_back(name);
  }
  std::sort(suspects.begin(), suspects.end());
  if (suspects.size() > count_max) suspects.resize(count_max);
  return suspects;
}

}  // namespace holdfast
