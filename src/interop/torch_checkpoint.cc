#include "interop/torch_checkpoint.h"

#include <algorithm>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "base/no_throw.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "base/utf8.h"
#include "checkpoint/restore/leaf_request.h"
#include "interop/extent_checkpoint.h"
#include "interop/pickled_leaf.h"
#include "interop/weight_index.h"
#include "pickle/torch_document.h"
#include "place/directory_ops.h"
#include "place/file_set.h"
#include "tensor/copy.h"
#include "tree/flatten.h"

namespace holdfast {
namespace {

using Document = std::shared_ptr<const pickle::TorchDocument>;
using pickle::NameUse;
using pickle::Node;
using pickle::NodeIndex;
using pickle::NodeKind;

// The names of all leaves, and what is kept of each, may be this many times
// larger than the file, and this much in any case.
constexpr uint64_t kNameBytesFree = uint64_t{64} << 20;
constexpr uint64_t kLeafBytes = 256;

// An array that lay in the pickle itself.
class MemoryReader final : public ArrayReader {
 public:
  explicit MemoryReader(Array array) : array_(std::move(array)) {}
  Status Read(const Shape& origin, const ArrayView& target) const override {
    ConvertStrided(Subview(array_.view(), {origin, target.shape}), target);
    return Status();
  }

 private:
  const Array array_;
};

// A storage's CRC, which many tensors may wait for, and which is read once.
class StorageCheck {
 public:
  StorageCheck(Document document, pickle::StoragePlace place)
      : document_(std::move(document)), place_(place) {}

  Status Pass() {
    const std::lock_guard lock(mutex_);
    if (has_passed_) return Status();
    HF_RETURN_IF_ERROR(document_->CheckStorage(place_));
    has_passed_ = true;
    return Status();
  }

 private:
  const Document document_;
  const pickle::StoragePlace place_;
  std::mutex mutex_;
  bool has_passed_ = false;
};

// Makes leaves of the nodes of a pickle.
class LeafMaker {
 public:
  LeafMaker(Document document, std::string file, bool verify)
      : document_(std::move(document)),
        program_(document_->program()),
        file_(std::move(file)),
        verify_(verify),
        name_bytes_max_(kNameBytesFree +
                        kPickleExpansionMax * document_->source_bytes()) {}

  Result<std::vector<ExtentLeaf>> Make() {
    HF_RETURN_IF_ERROR(Visit(program_.root));
    return std::move(leaves_);
  }

 private:
  Status Visit(NodeIndex index) {
    const Node& node = program_.node(index);
    if (node.kind == NodeKind::kList || node.kind == NodeKind::kTuple) {
      if (!node.children.empty()) return VisitItems(node.children);
    } else if (const std::vector<NodeIndex>* pairs = PairsOf(node)) {
      if (AreKeys(*pairs)) return VisitPairs(*pairs);
    }
    return AddLeaf(index);
  }

  // Keys and values of a dict or an OrderedDict that is not empty.
  const std::vector<NodeIndex>* PairsOf(const Node& node) const {
    if (node.kind == NodeKind::kDict) {
      return node.children.empty() ? nullptr : &node.children;
    }
    if (node.kind != NodeKind::kObject) return nullptr;
    const pickle::Object& object = program_.object(node);
    const pickle::Global& callee =
        program_.global(program_.node(object.callee));
    const bool is_plain = callee.use == NameUse::kOrderedDict &&
                          program_.node(object.args).children.empty() &&
                          object.items.empty() && !object.kwargs;
    return is_plain && !object.pairs.empty() ? &object.pairs : nullptr;
  }

  static bool IsIntegerKey(const Node& key) {
    return key.kind == NodeKind::kInt;
  }
  static std::string KeyText(const Node& key) {
    return IsIntegerKey(key) ? std::to_string(key.number)
                             : std::string(key.text);
  }

  // A tree has texts and integers as keys, and each text once.
  bool AreKeys(const std::vector<NodeIndex>& pairs) const {
    std::unordered_set<std::string> texts;
    for (size_t i = 0; i < pairs.size(); i += 2) {
      const Node& key = program_.node(pairs[i]);
      const bool is_text =
          key.kind == NodeKind::kString && IsValidUtf8(key.text);
      if (!is_text && !IsIntegerKey(key)) return false;
      if (!texts.insert(KeyText(key)).second) return false;
    }
    return true;
  }

  Status VisitPairs(const std::vector<NodeIndex>& pairs) {
    for (size_t i = 0; i + 1 < pairs.size(); i += 2) {
      const Node& key = program_.node(pairs[i]);
      const KeyKind kind =
          IsIntegerKey(key) ? KeyKind::kInteger : KeyKind::kName;
      HF_RETURN_IF_ERROR(VisitChild({KeyText(key), kind}, pairs[i + 1]));
    }
    return Status();
  }

  Status VisitItems(const std::vector<NodeIndex>& items) {
    for (size_t i = 0; i < items.size(); ++i) {
      HF_RETURN_IF_ERROR(
          VisitChild({std::to_string(i), KeyKind::kIndex}, items[i]));
    }
    return Status();
  }

  // Values may be shared, and even hold themselves: what is written out of them
  // is bounded.
  Status VisitChild(KeyElement element, NodeIndex child) {
    if (path_.size() >= kPickleDepthMax) {
      return DataLossError("pickle: values are nested deeper than " +
                           std::to_string(kPickleDepthMax));
    }
    path_bytes_ += element.key.size() + 1;
    name_bytes_ += path_bytes_ + kLeafBytes;
    if (name_bytes_ > name_bytes_max_) {
      return DataLossError(
          "pickle: the names of its leaves are more than " +
          std::to_string(kPickleExpansionMax) +
          " times larger than the file, because it holds the same parts again "
          "and again");
    }
    path_.push_back(std::move(element));
    HF_RETURN_IF_ERROR(Visit(child));
    path_bytes_ -= path_.back().key.size() + 1;
    path_.pop_back();
    return Status();
  }

  Status AddLeaf(NodeIndex index) {
    ExtentLeaf leaf;
    leaf.info.name = ParamName(path_);
    for (const KeyElement& element : path_) {
      leaf.info.key.push_back(element.key);
      leaf.info.key_kinds.push_back(element.kind);
    }
    const Node& node = program_.node(index);
    if (const Node* tensor = TensorNode(program_, node)) {
      leaf.info.kind = ValueKind::kArray;
      leaf.info.dtype = DType::kUint8;
      leaf.info.problem =
          FillTensor(*tensor, leaf).WithContext("leaf " + leaf.info.name);
    } else if (!BecomeSmall(index, leaf)) {
      leaf.info.kind = ValueKind::kObject;
      leaf.read_text = [document = document_, index]() -> Result<std::string> {
        HF_ASSIGN_OR_RETURN(const PickleValue value, document->ValueAt(index));
        return WriteTorchFile(value);
      };
    }
    leaves_.push_back(std::move(leaf));
    return Status();
  }

  Status FillTensor(const Node& node, ExtentLeaf& leaf) {
    HF_ASSIGN_OR_RETURN(pickle::TensorParts parts, ParseTensor(program_, node));
    leaf.info.dtype = parts.dtype;
    leaf.info.shape = parts.shape;
    HF_ASSIGN_OR_RETURN(const pickle::StoragePlace place,
                        document_->FindStorage(parts.storage));
    const uint64_t offset =
        place.offset + static_cast<uint64_t>(parts.offset_bytes);
    leaf.extents.push_back(
        {BoxOf(parts.shape), file_, offset, std::move(parts.strides), false});
    if (!verify_ || place.entry == nullptr) return Status();
    std::shared_ptr<StorageCheck>& check = checks_[place.entry];
    if (check == nullptr) {
      check = std::make_shared<StorageCheck>(document_, place);
    }
    leaf.check = [check] { return check->Pass(); };
    return Status();
  }

  bool IsSmallObject(const pickle::Object& object) const {
    switch (program_.global(program_.node(object.callee)).use) {
      case NameUse::kNumpyScalar:
      case NameUse::kNdarrayReconstruct:
      case NameUse::kNdarrayFromBuffer:
      case NameUse::kComplex:
      case NameUse::kCodecsEncode:
      case NameUse::kBytes:
        return true;
      case NameUse::kOrderedDict:
        return object.pairs.empty() &&
               program_.node(object.args).children.empty();
      default:
        return false;
    }
  }

  // Values that need no tensor's elements.
  bool BecomeSmall(NodeIndex index, ExtentLeaf& leaf) const {
    const Node& node = program_.node(index);
    const bool may_hold_tensors = node.kind == NodeKind::kObject
                                      ? !IsSmallObject(program_.object(node))
                                      : !node.children.empty();
    if (may_hold_tensors) return false;
    const Result<PickleValue> value = document_->ValueAt(index);
    if (!value.ok()) return false;
    ExtentLeaf known = leaf;
    if (!BecomeValue(*value, known) && !BecomeArray(*value, known)) {
      return false;
    }
    leaf = std::move(known);
    return true;
  }

  static bool BecomeArray(const PickleValue& value, ExtentLeaf& leaf) {
    const bool is_array = value.is(PickleKind::kNdarray);
    if (!is_array && !value.is(PickleKind::kNumpyScalar)) return false;
    const Array& array = value.array();
    // Another dtype's elements are kept as bytes, with one more axis.
    if (array.shape() != value.shape()) return false;
    leaf.info.kind = is_array ? ValueKind::kArray : ValueKind::kScalar;
    leaf.info.dtype = array.dtype();
    leaf.info.shape = array.shape();
    if (is_array) {
      leaf.reader = std::make_shared<MemoryReader>(array);
    } else {
      leaf.text.assign(array.view().data, array.byte_count());
    }
    return true;
  }

  const Document document_;
  const pickle::Program& program_;
  const std::string file_;
  const bool verify_;
  const uint64_t name_bytes_max_;
  uint64_t name_bytes_ = 0;
  uint64_t path_bytes_ = 0;
  KeyPath path_;
  std::vector<ExtentLeaf> leaves_;
  std::unordered_map<const pickle::ZipEntry*, std::shared_ptr<StorageCheck>>
      checks_;
};

Result<std::shared_ptr<const pickle::StoreSource>> SourceOf(
    Store& store, const std::string& file) {
  HF_ASSIGN_OR_RETURN(const ObjectInfo info, store.Stat(file));
  return std::make_shared<const pickle::StoreSource>(
      store, file, ByteRange{0, info.byte_count});
}

Result<std::vector<ExtentLeaf>> LeavesOf(Store& store, const std::string& file,
                                         bool verify) {
  HF_ASSIGN_OR_RETURN(auto source, SourceOf(store, file));
  HF_ASSIGN_OR_RETURN(const Document document,
                      pickle::TorchDocument::Open(std::move(source)));
  return LeafMaker(document, file, verify).Make();
}

Result<std::unique_ptr<Checkpoint>> OpenFile(const Place& place, bool verify) {
  HF_ASSIGN_OR_RETURN(std::shared_ptr<Store> store,
                      MakeFileSet({{place.name(), place}}));
  HF_ASSIGN_OR_RETURN(std::vector<ExtentLeaf> leaves,
                      LeavesOf(*store, place.name(), verify));
  return MakeExtentCheckpoint(OneItemInfo(place.path(), "torch"),
                              std::move(store), std::move(leaves));
}

Result<std::unique_ptr<Checkpoint>> OpenIndex(const Place& file, bool verify) {
  HF_ASSIGN_OR_RETURN(const WeightIndex index, ReadWeightIndex(file));
  const Place directory = file.parent();
  HF_ASSIGN_OR_RETURN(std::shared_ptr<Store> store,
                      MakeFileSet(FilesOf(index, directory)));
  FoundWeights found;
  std::vector<ExtentLeaf> all;
  for (const std::string& name : index.Files()) {
    const std::string path = (directory / name).path();
    auto leaves = LeavesOf(*store, name, verify);
    if (!leaves.ok()) return leaves.status().WithContext(path);
    for (ExtentLeaf& leaf : *leaves) {
      const Status added = found.Add(leaf.info.name, name, &index);
      if (!added.ok()) return added.WithContext(path);
      all.push_back(std::move(leaf));
    }
  }
  HF_RETURN_IF_ERROR(found.CheckAll(index));
  return MakeExtentCheckpoint(OneItemInfo(directory.path(), "torch"),
                              std::move(store), std::move(all));
}

bool IsIndex(const Place& place) {
  return place.name().ends_with(kTorchIndexSuffix);
}

// The index that a directory, or a path to one, stands for; none of a file.
Result<std::optional<Place>> FindIndex(const Place& place) {
  if (IsIndex(place)) return std::optional(place);
  HF_ASSIGN_OR_RETURN(const bool is_directory, LeadsToDirectory(place));
  if (!is_directory) return std::optional<Place>();
  HF_ASSIGN_OR_RETURN(const std::vector<std::string> names,
                      ListDirectory(place));
  HF_ASSIGN_OR_RETURN(
      const std::string name,
      ChooseIndex(place, names, kTorchIndexSuffix, kTorchIndexFile));
  if (name.empty()) {
    return NotFoundError(place.path() + ": no file *" +
                         std::string(kTorchIndexSuffix));
  }
  return std::optional(place / name);
}

// Whether each of its members has a CRC.
Result<bool> HasChecksums(const Place& file) {
  HF_ASSIGN_OR_RETURN(const std::shared_ptr<Store> store,
                      MakeFileSet({{file.name(), file}}));
  HF_ASSIGN_OR_RETURN(const auto source, SourceOf(*store, file.name()));
  HF_ASSIGN_OR_RETURN(const bool is_legacy, pickle::IsLegacyFile(*source));
  if (is_legacy) return false;
  const auto zip = pickle::ZipReader::Open(*source);
  return !zip.ok() || zip->has_checksums();
}

}  // namespace

Result<std::unique_ptr<Checkpoint>> OpenTorchFile(const Place& place,
                                                  bool verify) {
  return CatchBadAlloc([&]() -> Result<std::unique_ptr<Checkpoint>> {
    HF_ASSIGN_OR_RETURN(const std::optional<Place> index, FindIndex(place));
    auto opened = index ? OpenIndex(*index, verify) : OpenFile(place, verify);
    const Place& named = index ? *index : place;
    if (!opened.ok()) return opened.status().WithContext(named.path());
    return opened;
  });
}

Result<std::vector<Place>> CheckedArchives(const Place& place) {
  HF_ASSIGN_OR_RETURN(const std::optional<Place> index_file, FindIndex(place));
  std::vector<Place> files = {place};
  if (index_file) {
    files.clear();
    HF_ASSIGN_OR_RETURN(const WeightIndex index, ReadWeightIndex(*index_file));
    for (const auto& [name, file] : FilesOf(index, index_file->parent())) {
      files.push_back(file);
    }
  }
  for (const Place& file : files) {
    HF_ASSIGN_OR_RETURN(const bool has_checksums, HasChecksums(file));
    if (!has_checksums) return std::vector<Place>();
  }
  return files;
}

}  // namespace holdfast
