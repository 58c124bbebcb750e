// Open and the Checkpoint it returns; Load and DigestLeaf build on the items
// below it.
#include "holdfast/checkpoint.h"

#include <openssl/evp.h>

#include <algorithm>

#include "base/coding.h"
#include "base/no_throw.h"
#include "base/status_macros.h"
#include "checkpoint/item.h"
#include "checkpoint/layout.h"
#include "checkpoint/opened_checkpoint.h"
#include "checkpoint/restore.h"
#include "tensor/copy.h"

namespace holdfast {
namespace {

// Names close to the wanted one, for the error message.
std::string CloseNames(const std::vector<LeafInfo>& leaves,
                       std::string_view name) {
  std::string text;
  int count = 0;
  for (const LeafInfo& leaf : leaves) {
    const bool is_close =
        leaf.name.find(name) != std::string::npos ||
        (!leaf.name.empty() && name.find(leaf.name) != std::string_view::npos);
    if (!is_close) continue;
    if (++count > 5) return text + ", ...";
    text += (count == 1 ? "; close: " : ", ") + leaf.name;
  }
  return text;
}

class Sha256 {
 public:
  Sha256() : context_(EVP_MD_CTX_new()) {
    EVP_DigestInit_ex(context_, EVP_sha256(), nullptr);
  }
  ~Sha256() { EVP_MD_CTX_free(context_); }
  Sha256(const Sha256&) = delete;
  Sha256& operator=(const Sha256&) = delete;

  void Update(std::string_view data) {
    EVP_DigestUpdate(context_, data.data(), data.size());
  }
  std::string HexDigest() {
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned int byte_count = 0;
    EVP_DigestFinal_ex(context_, digest, &byte_count);
    return ToHex({reinterpret_cast<const char*>(digest), byte_count});
  }

 private:
  EVP_MD_CTX* context_;
};

Status CheckBox(const LeafInfo& leaf, const Shape& origin, const Shape& shape) {
  const size_t rank = leaf.shape.size();
  if (origin.size() != rank || shape.size() != rank) {
    return InvalidArgumentError("leaf " + leaf.name + ": slice of rank " +
                                std::to_string(shape.size()) +
                                " of an array of shape " +
                                ShapeToString(leaf.shape));
  }
  for (size_t d = 0; d < rank; ++d) {
    if (origin[d] >= 0 && shape[d] >= 0 && origin[d] <= leaf.shape[d] &&
        shape[d] <= leaf.shape[d] - origin[d]) {
      continue;
    }
    return OutOfRangeError(
        "leaf " + leaf.name + ": slice " + BoxToString({origin, shape}) +
        " is not inside an array of shape " + ShapeToString(leaf.shape));
  }
  return Status();
}

}  // namespace

Result<std::unique_ptr<OpenedCheckpoint>> OpenedCheckpoint::Open(
    const std::string& path, const OpenOptions& options, ItemDetail detail) {
  HF_ASSIGN_OR_RETURN(Place place, FindPlace(path, options));
  std::unique_ptr<OpenedCheckpoint> opened(new OpenedCheckpoint);
  opened->info_ = std::move(place.info);
  const bool name_items = place.items.size() > 1;
  for (const ItemPlace& item_place : place.items) {
    HF_ASSIGN_OR_RETURN(std::unique_ptr<Item> item,
                        Item::Open(item_place, options, detail));
    opened->AddItem(std::move(item), name_items);
  }
  return opened;
}

void OpenedCheckpoint::AddItem(std::unique_ptr<Item> item, bool name_it) {
  for (const StoredLeaf& leaf : item->leaves()) {
    LeafInfo info = leaf.info;
    if (name_it) {
      const std::string& item_name = item->place().name;
      info.name = info.key.empty() ? item_name : item_name + "." + info.name;
      info.key.insert(info.key.begin(), item_name);
    }
    infos_.push_back(std::move(info));
    leaves_.push_back({item.get(), &leaf});
  }
  info_.use_ocdbt |= item->use_ocdbt();
  if (item->zarr_format() != 0) info_.zarr_format = item->zarr_format();
  items_.push_back(std::move(item));
}

Result<size_t> OpenedCheckpoint::Find(std::string_view name) const {
  for (size_t i = 0; i < infos_.size(); ++i) {
    if (infos_[i].name == name) return i;
  }
  return NotFoundError("leaf \"" + std::string(name) + "\" is not in " +
                       info_.path + CloseNames(infos_, name));
}

Result<Array> OpenedCheckpoint::Read(size_t leaf) const {
  const LeafInfo& info = infos_[leaf];
  return ReadBox(leaf, Shape(info.shape.size(), 0), info.shape);
}

Result<Array> OpenedCheckpoint::ReadBox(size_t leaf, const Shape& origin,
                                        const Shape& shape) const {
  HF_RETURN_IF_ERROR(leaves_[leaf].second->problem);
  HF_RETURN_IF_ERROR(CheckBox(infos_[leaf], origin, shape));
  return CatchBadAlloc([&] { return ReadCheckedBox(leaf, {origin, shape}); });
}

Result<Array> OpenedCheckpoint::ReadCheckedBox(size_t leaf,
                                               const Box& box) const {
  const auto& [item, stored] = leaves_[leaf];
  if (stored->layout == nullptr) return BoxOfValue(leaf, box);
  HF_ASSIGN_OR_RETURN(
      Array array,
      Array::Allocate(stored->layout->format.metadata.dtype, box.shape));
  CodecContext context;
  HF_RETURN_IF_ERROR(
      RestoreBox({item, stored, array.mutable_view()}, box, context));
  return array;
}

// Values that the old msgpack file holds in line.
Result<Array> OpenedCheckpoint::BoxOfValue(size_t leaf, const Box& box) const {
  const Tree& value = leaves_[leaf].second->value;
  if (value.is_leaf() && value.leaf_kind() == LeafKind::kScalar) {
    const Scalar& scalar = value.scalar();
    return Array::FromBytes(scalar.dtype, {}, scalar.bytes.data());
  }
  if (!value.is_leaf() || value.leaf_kind() != LeafKind::kArray) {
    return InvalidArgumentError("leaf " + infos_[leaf].name + " is a " +
                                std::string(ValueKindName(infos_[leaf].kind)) +
                                ", not an array");
  }
  const Array& whole = value.array();
  HF_ASSIGN_OR_RETURN(Array part, Array::Allocate(whole.dtype(), box.shape));
  CopyStrided(Subview(whole.view(), box), part.mutable_view());
  return part;
}

Result<std::string> OpenedCheckpoint::ReadText(size_t leaf) const {
  const StoredLeaf& stored = *leaves_[leaf].second;
  HF_RETURN_IF_ERROR(stored.problem);
  const ValueKind kind = stored.info.kind;
  if (kind == ValueKind::kString || kind == ValueKind::kBytes ||
      kind == ValueKind::kJson) {
    return stored.value.text();
  }
  return InvalidArgumentError("leaf " + infos_[leaf].name + " is a " +
                              std::string(ValueKindName(kind)) + ", not text");
}

Result<std::unique_ptr<Checkpoint>> Open(const std::string& path,
                                         const OpenOptions& options) {
  return CatchBadAlloc([&]() -> Result<std::unique_ptr<Checkpoint>> {
    HF_ASSIGN_OR_RETURN(
        auto opened, OpenedCheckpoint::Open(path, options, ItemDetail::kFull));
    return std::unique_ptr<Checkpoint>(std::move(opened));
  });
}

std::string_view ValueKindName(ValueKind kind) {
  switch (kind) {
    case ValueKind::kArray:
      return "array";
    case ValueKind::kScalar:
      return "scalar";
    case ValueKind::kString:
      return "string";
    case ValueKind::kBytes:
      return "bytes";
    case ValueKind::kNone:
      return "none";
    case ValueKind::kEmptyDict:
      return "empty_dict";
    case ValueKind::kEmptyList:
      return "empty_list";
    case ValueKind::kEmptyTuple:
      return "empty_tuple";
    case ValueKind::kPlaceholder:
      return "placeholder";
    case ValueKind::kJson:
      return "json";
  }
  return "unknown";
}

namespace {

// Leading rows of an array that make up about this much memory at a time.
constexpr uint64_t kDigestSlabBytes = uint64_t{64} << 20;

Status DigestArray(const Checkpoint& checkpoint, size_t leaf, Sha256& sha256) {
  const LeafInfo& info = checkpoint.leaves()[leaf];
  const bool is_small = info.decoded_bytes <= kDigestSlabBytes;
  if (is_small || info.shape.empty() || info.chunk_shape.empty()) {
    HF_ASSIGN_OR_RETURN(const Array array, checkpoint.Read(leaf));
    sha256.Update({array.view().data, array.byte_count()});
    return Status();
  }
  const int64_t row_count = info.shape[0];
  const uint64_t row_bytes =
      std::max<uint64_t>(1, info.decoded_bytes / row_count);
  // Whole chunks, so that none is decoded twice.
  const int64_t chunk_rows = info.chunk_shape[0];
  const int64_t wanted_rows =
      std::max<int64_t>(1, kDigestSlabBytes / row_bytes);
  const int64_t slab_rows =
      (wanted_rows + chunk_rows - 1) / chunk_rows * chunk_rows;
  Shape origin(info.shape.size(), 0), shape = info.shape;
  for (; origin[0] < row_count; origin[0] += slab_rows) {
    shape[0] = std::min(slab_rows, row_count - origin[0]);
    HF_ASSIGN_OR_RETURN(const Array slab,
                        checkpoint.ReadBox(leaf, origin, shape));
    sha256.Update({slab.view().data, slab.byte_count()});
  }
  return Status();
}

}  // namespace

Result<std::string> DigestLeaf(const Checkpoint& checkpoint, size_t leaf) {
  Sha256 sha256;
  switch (checkpoint.leaves()[leaf].kind) {
    case ValueKind::kArray:
    case ValueKind::kScalar:
      HF_RETURN_IF_ERROR(DigestArray(checkpoint, leaf, sha256));
      break;
    case ValueKind::kString:
    case ValueKind::kBytes:
    case ValueKind::kJson: {
      HF_ASSIGN_OR_RETURN(const std::string text, checkpoint.ReadText(leaf));
      sha256.Update(text);
      break;
    }
    default:
      break;
  }
  return sha256.HexDigest();
}

}  // namespace holdfast
