// OpenedCheckpoint: the Checkpoint behind Open, with what Load and Verify need
// beyond the public face.
//
// Thread-safety, ownership, errors: as holdfast/checkpoint.h.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/item.h"
#include "holdfast/checkpoint.h"
#include "tensor/box.h"

namespace holdfast {

class OpenedCheckpoint final : public Checkpoint {
 public:
  static Result<std::unique_ptr<OpenedCheckpoint>> Open(
      const std::string& path, const OpenOptions& options, ItemDetail detail);

  const CheckpointInfo& info() const override { return info_; }
  const std::vector<LeafInfo>& leaves() const override { return infos_; }
  Result<size_t> Find(std::string_view name) const override;
  Result<Array> Read(size_t leaf) const override;
  Result<Array> ReadBox(size_t leaf, const Shape& origin,
                        const Shape& shape) const override;
  Result<std::string> ReadText(size_t leaf) const override;

  const std::vector<std::unique_ptr<Item>>& items() const { return items_; }

 private:
  OpenedCheckpoint() = default;
  void AddItem(std::unique_ptr<Item> item, bool name_it);
  // The leaf has no problem and the box is inside it.
  Result<Array> ReadCheckedBox(size_t leaf, const Box& box) const;
  Result<Array> BoxOfValue(size_t leaf, const Box& box) const;

  CheckpointInfo info_;
  std::vector<std::unique_ptr<Item>> items_;
  std::vector<LeafInfo> infos_;
  std::vector<std::pair<const Item*, const StoredLeaf*>> leaves_;  // as infos_
};

}  // namespace holdfast
