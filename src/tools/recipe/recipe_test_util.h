// A source for tests. Its arrays are in memory, scattered over extents that it
// reports.
//
// Thread-safety: as Checkpoint.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "engine/checkpoint/stored_extents.h"
#include "engine/restore/leaf_request.h"
#include "foreign/extents/extent_checkpoint.h"
#include "ground/tensor/copy.h"
#include "stores/storage/memory_store.h"

namespace holdfast {

struct NamedArray {
  std::string name;
  Array array;
};

class ScatteredSource final : public Checkpoint, public StoredExtents {
 public:
  // Cuts every array along its first axis into extents, each with a random
  // order of axes. With a seed of 0 every array stays in one piece, in C order.
  ScatteredSource(const std::vector<NamedArray>& arrays, uint32_t seed) {
    std::mt19937 random(seed);
    std::vector<ExtentLeaf> leaves;
    for (const NamedArray& named : arrays) {
      ExtentLeaf leaf;
      leaf.info = NamedLeaf(named.name, ValueKind::kArray);
      leaf.info.dtype = named.array.dtype();
      leaf.info.shape = named.array.shape();
      leaf.info.codecs = "none";
      leaf.extents = seed == 0 ? Whole(named) : Scatter(named, random);
      extents_.push_back(leaf.extents);
      leaves.push_back(std::move(leaf));
    }
    ExtentLeaf text;
    text.info = NamedLeaf("note", ValueKind::kString);
    text.text = "some words";
    extents_.emplace_back();
    leaves.push_back(std::move(text));
    auto made = MakeExtentCheckpoint(OneItemInfo("/memory", "npz"), store_,
                                     std::move(leaves));
    EXPECT_TRUE(made.ok()) << made.status().ToString();
    inner_ = std::move(made).value();
    info_ = inner_->info();
    infos_ = inner_->leaves();
    for (const LeafInfo& info : infos_) {
      EXPECT_TRUE(info.problem.ok()) << info.problem.ToString();
    }
  }

  Result<LeafExtents> ExtentsOf(size_t leaf) const override {
    LeafExtents extents;
    extents.extents = extents_[leaf];
    return extents;
  }

  // Sets the keys and key kinds of the leaf.
  void SetKey(size_t leaf, std::vector<std::string> key,
              std::vector<KeyKind> kinds) {
    infos_[leaf].key = std::move(key);
    infos_[leaf].key_kinds = std::move(kinds);
  }

  std::shared_ptr<MemoryStore> store() const { return store_; }

 protected:
  Result<Stats> DoReadInto(const std::vector<ReadRequest>& requests,
                           const RunOptions& run) const override {
    return inner_->ReadInto(requests, run);
  }
  Result<std::string> DoReadText(size_t leaf) const override {
    return inner_->ReadText(leaf);
  }

 private:
  std::vector<Extent> Whole(const NamedArray& named) {
    EXPECT_TRUE(
        store_
            ->Write(named.name, std::string_view(named.array.view().data,
                                                 named.array.byte_count()))
            .ok());
    return {{BoxOf(named.array.shape()), named.name, 0, {}}};
  }

  std::vector<Extent> Scatter(const NamedArray& named, std::mt19937& random) {
    const Shape& shape = named.array.shape();
    if (shape.empty()) return Whole(named);
    std::vector<Extent> extents;
    for (int64_t first = 0; first < shape[0];) {
      Extent extent;
      extent.box = BoxOf(shape);
      extent.box.origin[0] = first;
      extent.box.shape[0] =
          1 + random() % static_cast<uint64_t>(shape[0] - first);
      first += extent.box.shape[0];
      extent.file = named.name + "@" + std::to_string(first);
      extent.offset = random() % 9;
      std::vector<size_t> axes(shape.size());
      std::iota(axes.begin(), axes.end(), 0);
      if (random() % 2 == 0) std::shuffle(axes.begin(), axes.end(), random);
      std::reverse(axes.begin(), axes.end());
      extent.strides.assign(shape.size(), 0);
      int64_t stride = DTypeBytes(named.array.dtype());
      for (const size_t axis : axes) {
        extent.strides[axis] = stride;
        stride *= extent.box.shape[axis];
      }
      std::string file(extent.offset + stride, '\x77');
      CopyStrided(Subview(named.array.view(), extent.box),
                  {named.array.dtype(), &file[extent.offset], extent.box.shape,
                   extent.strides});
      EXPECT_TRUE(store_->Write(extent.file, file).ok());
      extents.push_back(std::move(extent));
    }
    return extents;
  }

  const std::shared_ptr<MemoryStore> store_ = std::make_shared<MemoryStore>();
  std::vector<std::vector<Extent>> extents_;
  std::unique_ptr<Checkpoint> inner_;
};

// Returns an array of consecutive integers from `first` on.
inline Array CountingArray(const Shape& shape, int32_t first = 0) {
  std::vector<int32_t> values(ElementCount(shape));
  std::iota(values.begin(), values.end(), first);
  return Array::FromBytes(DType::kInt32, shape, values.data());
}

inline std::string_view BytesOf(const Array& array) {
  return {array.view().data, array.byte_count()};
}

}  // namespace holdfast
