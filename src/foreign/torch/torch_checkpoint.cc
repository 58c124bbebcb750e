#include "foreign/torch/torch_checkpoint.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "engine/commit/known_formats.h"
#include "engine/restore/leaf_request.h"
#include "foreign/extents/extent_checkpoint.h"
#include "foreign/safetensors/weight_index.h"
#include "foreign/torch/pickled_leaf.h"
#include "formats/pickle/refused_parts.h"
#include "formats/pickle/torch_document.h"
#include "ground/base/no_throw.h"
#include "ground/base/status_macros.h"
#include "ground/base/text.h"
#include "ground/base/utf8.h"
#include "ground/tensor/copy.h"
#include "ground/tree/flatten.h"
#include "stores/place/directory_ops.h"
#include "stores/place/file_set.h"

namespace holdfast {
namespace {

using Document = std::shared_ptr<const pickle::TorchDocument>;
using pickle::NameUse;
using pickle::Node;
using pickle::NodeIndex;
using pickle::NodeKind;

// The names of all leaves, and kLeafBytes for each leaf, may take
// kPickleExpansionMax times the size of the file. They may always take
// kNameBytesFree.
constexpr uint64_t kNameBytesFree = uint64_t{64} << 20;
constexpr uint64_t kLeafBytes = 256;

// An array that was stored in the pickle itself.
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

// The CRC check of a storage. Many tensors may share the storage, and the check
// runs once.
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

struct TorchLeaves {
  std::vector<ExtentLeaf> leaves;
  std::vector<std::string> notes;
};

// The parts of a module's state_dict(), from the module as it was pickled.
struct ModuleParts {
  std::string class_name;
  std::vector<std::pair<std::string, NodeIndex>> entries;
};

// Returns the keys and values of a dict or an OrderedDict; null for anything
// else.
const std::vector<NodeIndex>* MappingOf(const pickle::Program& program,
                                        const Node& node) {
  if (node.kind == NodeKind::kDict) return &node.children;
  if (node.kind != NodeKind::kObject) return nullptr;
  const pickle::Object& object = program.object(node);
  const pickle::Global& callee = program.global(program.node(object.callee));
  const bool is_plain = callee.use == NameUse::kOrderedDict &&
                        program.node(object.args).children.empty() &&
                        object.items.empty() && !object.kwargs;
  return is_plain ? &object.pairs : nullptr;
}

// Returns the value of a string key; null if it is missing.
const Node* MemberOf(const pickle::Program& program,
                     const std::vector<NodeIndex>& pairs,
                     std::string_view name) {
  for (size_t i = 0; i + 1 < pairs.size(); i += 2) {
    const Node& key = program.node(pairs[i]);
    if (key.kind == NodeKind::kString && key.text == name) {
      return &program.node(pairs[i + 1]);
    }
  }
  return nullptr;
}

// Returns the strings in a set, as protocols 2 to 5 pickle it.
std::unordered_set<std::string_view> TextsOf(const pickle::Program& program,
                                             const Node* set) {
  std::unordered_set<std::string_view> texts;
  if (set != nullptr && set->kind == NodeKind::kObject) {
    const auto& args = program.node(program.object(*set).args).children;
    set = args.size() == 1 ? &program.node(args[0]) : nullptr;
  }
  if (set == nullptr) return texts;
  for (const NodeIndex item : set->children) {
    const Node& node = program.node(item);
    if (node.kind == NodeKind::kString) texts.insert(node.text);
  }
  return texts;
}

// Returns the parts of an object whose state shows that it is a
// torch.nn.Module; nullopt for any other object.
std::optional<ModuleParts> ModuleOf(const pickle::Program& program,
                                    const Node& node) {
  if (node.kind != NodeKind::kObject) return std::nullopt;
  const pickle::Object& object = program.object(node);
  const pickle::Global& callee = program.global(program.node(object.callee));
  if (callee.use != NameUse::kClass || !object.state) return std::nullopt;
  const std::vector<NodeIndex>* state =
      MappingOf(program, program.node(*object.state));
  if (state == nullptr) return std::nullopt;
  const auto hidden = TextsOf(
      program, MemberOf(program, *state, "_non_persistent_buffers_set"));
  ModuleParts module{pickle::Abbreviated(callee.FullName()), {}};
  std::unordered_set<std::string_view> names;
  for (const std::string_view part : {"_parameters", "_buffers", "_modules"}) {
    const Node* member = MemberOf(program, *state, part);
    const std::vector<NodeIndex>* pairs =
        member == nullptr ? nullptr : MappingOf(program, *member);
    if (pairs == nullptr) return std::nullopt;
    for (size_t i = 0; i + 1 < pairs->size(); i += 2) {
      const Node& key = program.node((*pairs)[i]);
      if (key.kind != NodeKind::kString || !IsValidUtf8(key.text) ||
          !names.insert(key.text).second) {
        return std::nullopt;
      }
      const Node& value = program.node((*pairs)[i + 1]);
      if (value.kind == NodeKind::kNone) continue;
      if (part == "_buffers" && hidden.contains(key.text)) continue;
      module.entries.emplace_back(key.text, (*pairs)[i + 1]);
    }
  }
  return module;
}

// Makes leaves from the nodes of a pickle.
class LeafMaker {
 public:
  LeafMaker(Document document, std::string file, bool verify)
      : document_(std::move(document)),
        program_(document_->program()),
        file_(std::move(file)),
        verify_(verify),
        name_bytes_max_(kNameBytesFree +
                        kPickleExpansionMax * document_->source_bytes()),
        refused_(program_) {}

  Result<TorchLeaves> Make() {
    HF_RETURN_IF_ERROR(refused_.Hidden());
    open_.insert(program_.root);
    HF_RETURN_IF_ERROR(Visit(program_.root));
    for (const Status& untold : refused_.Untold()) {
      found_.notes.push_back(
          "an attribute that belongs to no leaf is left out: " +
          std::string(untold.message()));
    }
    return std::move(found_);
  }

 private:
  Status Visit(NodeIndex index) {
    const Node& node = program_.node(index);
    if (node.kind == NodeKind::kList || node.kind == NodeKind::kTuple) {
      if (!node.children.empty()) return VisitItems(node.children);
    } else if (const std::vector<NodeIndex>* pairs = PairsOf(node)) {
      if (AreKeys(*pairs)) return VisitPairs(*pairs);
    } else if (const auto module = ModuleOf(program_, node)) {
      return VisitModule(index, *module);
    }
    return AddLeaf(index);
  }

  // Visits the parts of the module's state_dict(). Everything else in a module
  // belongs to the program that defines it.
  Status VisitModule(NodeIndex index, const ModuleParts& module) {
    refused_.Tell(index);
    if (module_depth_ == 0) {
      const std::string name = ParamName(path_);
      found_.notes.push_back((name.empty() ? "the value" : "leaf " + name) +
                             " is a module (" + module.class_name +
                             "); only its parameters and buffers are read");
    }
    const size_t leaf_count = found_.leaves.size();
    ++module_depth_;
    for (const auto& [key, value] : module.entries) {
      HF_RETURN_IF_ERROR(VisitChild({key, KeyKind::kName}, value));
    }
    --module_depth_;
    if (module_depth_ > 0 || found_.leaves.size() > leaf_count) return Status();
    ExtentLeaf leaf = NewLeaf();
    leaf.info.kind = ValueKind::kEmptyDict;
    found_.leaves.push_back(std::move(leaf));
    return Status();
  }

  // Returns the keys and values of a dict or an OrderedDict; null if it is
  // empty, or for anything else.
  const std::vector<NodeIndex>* PairsOf(const Node& node) const {
    const std::vector<NodeIndex>* pairs = MappingOf(program_, node);
    return pairs == nullptr || pairs->empty() ? nullptr : pairs;
  }

  static bool IsIntegerKey(const Node& key) {
    return key.kind == NodeKind::kInt;
  }
  static std::string KeyText(const Node& key) {
    return IsIntegerKey(key) ? std::to_string(key.number)
                             : std::string(key.text);
  }

  // Returns whether the keys can be those of a tree: strings and integers,
  // without duplicates.
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

  // Visits a child. Values may be shared, and even contain themselves, so the
  // expansion is limited.
  Status VisitChild(KeyElement element, NodeIndex child) {
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
    if (!open_.insert(child).second) {
      AddUnreadable("it contains itself");
    } else if (path_.size() > kPickleDepthMax) {
      AddUnreadable("it is nested deeper than " +
                    std::to_string(kPickleDepthMax));
      open_.erase(child);
    } else {
      HF_RETURN_IF_ERROR(Visit(child));
      open_.erase(child);
    }
    path_bytes_ -= path_.back().key.size() + 1;
    path_.pop_back();
    return Status();
  }

  // Makes a leaf at the current path.
  ExtentLeaf NewLeaf() const {
    ExtentLeaf leaf;
    leaf.info.name = ParamName(path_);
    for (const KeyElement& element : path_) {
      leaf.info.key.push_back(element.key);
      leaf.info.key_kinds.push_back(element.kind);
    }
    return leaf;
  }

  void AddUnreadable(const std::string& why) {
    ExtentLeaf leaf = NewLeaf();
    leaf.info.kind = ValueKind::kObject;
    leaf.info.problem =
        UnimplementedError("leaf " + leaf.info.name + ": pickle: " + why);
    found_.leaves.push_back(std::move(leaf));
  }

  Status AddLeaf(NodeIndex index) {
    ExtentLeaf leaf = NewLeaf();
    refused_.Tell(index);
    const Status problem = Fill(index, leaf);
    leaf.info.problem = problem.WithContext("leaf " + leaf.info.name);
    found_.leaves.push_back(std::move(leaf));
    return Status();
  }

  // Fills a leaf with a tensor. Parts that are left out (hooks, attributes) do
  // not affect the tensor's elements.
  Status Fill(NodeIndex index, ExtentLeaf& leaf) {
    const Node& node = program_.node(index);
    leaf.info.kind = ValueKind::kArray;
    HF_RETURN_IF_ERROR(CheckHasElements(program_, node));
    if (const auto call = TensorCallOf(program_, node)) {
      NoteRefused(index, leaf);
      HF_ASSIGN_OR_RETURN(pickle::TensorParts parts,
                          ParseTensor(program_, *call));
      return FillTensor(std::move(parts), leaf);
    }
    leaf.info.kind = ValueKind::kObject;
    HF_RETURN_IF_ERROR(refused_.Below(index));
    if (node.kind == NodeKind::kPersistent) {
      leaf.info.kind = ValueKind::kArray;
      HF_ASSIGN_OR_RETURN(pickle::TensorParts parts,
                          ParseStorage(program_, node));
      return FillTensor(std::move(parts), leaf);
    }
    if (BecomeSmall(index, leaf)) return Status();
    leaf.info.kind = ValueKind::kObject;
    leaf.read_text = [document = document_, index]() -> Result<std::string> {
      HF_ASSIGN_OR_RETURN(const PickleValue value, document->ValueAt(index));
      return WriteTorchFile(value);
    };
    return Status();
  }

  void NoteRefused(NodeIndex index, const ExtentLeaf& leaf) {
    const Status refused = refused_.Below(index);
    if (refused.ok()) return;
    found_.notes.push_back("leaf " + leaf.info.name +
                           ": an attribute of the tensor is left out: " +
                           std::string(refused.message()));
  }

  Status FillTensor(pickle::TensorParts parts, ExtentLeaf& leaf) {
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
      case NameUse::kTensorFromNumpy:
        return true;
      case NameUse::kOrderedDict:
        return object.pairs.empty() &&
               program_.node(object.args).children.empty();
      default:
        return false;
    }
  }

  // Makes a leaf of a value without tensors. Returns false for any other value.
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
    const bool is_array =
        value.is(PickleKind::kNdarray) || value.is(PickleKind::kTensor);
    if (!is_array && !value.is(PickleKind::kNumpyScalar)) return false;
    const Array& array = value.array();
    // Elements of another dtype are kept as bytes, with one more axis.
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
  std::unordered_set<NodeIndex> open_;  // the nodes on the path
  int module_depth_ = 0;
  pickle::RefusedParts refused_;
  TorchLeaves found_;
  std::unordered_map<const pickle::ZipEntry*, std::shared_ptr<StorageCheck>>
      checks_;
};

Result<std::shared_ptr<const pickle::StoreSource>> SourceOf(
    Store& store, const std::string& file) {
  HF_ASSIGN_OR_RETURN(const ObjectInfo info, store.Stat(file));
  return std::make_shared<const pickle::StoreSource>(
      store, file, ByteRange{0, info.byte_count});
}

Result<TorchLeaves> LeavesOf(Store& store, const std::string& file,
                             bool verify) {
  HF_ASSIGN_OR_RETURN(auto source, SourceOf(store, file));
  const Result<Document> document =
      pickle::TorchDocument::Open(std::move(source));
  if (!document.ok()) {
    return WithWhatFileIs(document.status(), store, file, "torch");
  }
  return LeafMaker(*document, file, verify).Make();
}

Result<std::unique_ptr<Checkpoint>> OpenFile(const Place& place, bool verify) {
  HF_ASSIGN_OR_RETURN(std::shared_ptr<Store> store,
                      MakeFileSet({{place.name(), place}}));
  HF_ASSIGN_OR_RETURN(TorchLeaves found,
                      LeavesOf(*store, place.name(), verify));
  CheckpointInfo info = OneItemInfo(place.path(), "torch");
  info.notes = std::move(found.notes);
  return MakeExtentCheckpoint(std::move(info), std::move(store),
                              std::move(found.leaves));
}

// A model in several files: the files of an index, or files whose names form a
// set.
struct TorchFiles {
  Place named;  // the index, or the directory
  Place directory;
  std::vector<std::string> files;
  std::optional<WeightIndex> index;

  std::map<std::string, Place> places() const {
    std::map<std::string, Place> all;
    for (const std::string& file : files) all.emplace(file, directory / file);
    return all;
  }
};

// Adds the leaves of one file in a set to `all`.
Status AddLeavesOf(Store& store, const TorchFiles& set, const std::string& name,
                   bool verify, FoundWeights& found,
                   std::vector<std::string>& notes,
                   std::vector<ExtentLeaf>& all) {
  HF_ASSIGN_OR_RETURN(TorchLeaves file, LeavesOf(store, name, verify));
  for (std::string& note : file.notes) {
    notes.push_back(name + ": " + std::move(note));
  }
  for (ExtentLeaf& leaf : file.leaves) {
    // A file without tensors has one such leaf.
    if (leaf.info.name.empty() && IsEmptyKind(leaf.info.kind)) continue;
    HF_RETURN_IF_ERROR(
        found.Add(leaf.info.name, name, set.index ? &*set.index : nullptr));
    all.push_back(std::move(leaf));
  }
  return Status();
}

Result<std::unique_ptr<Checkpoint>> OpenSet(const TorchFiles& set,
                                            bool verify) {
  HF_ASSIGN_OR_RETURN(std::shared_ptr<Store> store, MakeFileSet(set.places()));
  FoundWeights found;
  std::vector<ExtentLeaf> all;
  CheckpointInfo info = OneItemInfo(set.directory.path(), "torch");
  for (const std::string& name : set.files) {
    const Status added =
        AddLeavesOf(*store, set, name, verify, found, info.notes, all);
    if (!added.ok()) return added.WithContext((set.directory / name).path());
  }
  if (set.index) HF_RETURN_IF_ERROR(found.CheckAll(*set.index));
  return MakeExtentCheckpoint(std::move(info), std::move(store),
                              std::move(all));
}

Result<std::unique_ptr<Checkpoint>> OpenWholeSet(const TorchFiles& set,
                                                 bool verify) {
  if (!set.index) {
    HF_RETURN_IF_ERROR(CheckNoPartIsMissing(set.files));
    return OpenSet(set, verify);
  }
  auto opened = OpenSet(set, verify);
  if (!opened.ok()) return OfIndexedFiles(opened.status());
  return opened;
}

bool IsIndex(const Place& place) {
  return place.name().ends_with(kTorchIndexSuffix);
}

Result<TorchFiles> SetOfIndex(const Place& file) {
  TorchFiles set{file, file.parent(), {}, std::nullopt};
  HF_ASSIGN_OR_RETURN(set.index, ReadWeightIndex(file));
  const std::set<std::string> files = set.index->Files();
  set.files.assign(files.begin(), files.end());
  return set;
}

// Returns the files of a directory or of an index; nullopt if `place` is a
// single file.
Result<std::optional<TorchFiles>> FindSet(const Place& place) {
  if (IsIndex(place)) {
    HF_ASSIGN_OR_RETURN(TorchFiles set, SetOfIndex(place));
    return std::optional(std::move(set));
  }
  HF_ASSIGN_OR_RETURN(const bool is_directory, LeadsToDirectory(place));
  if (!is_directory) return std::optional<TorchFiles>();
  HF_ASSIGN_OR_RETURN(const std::vector<std::string> names,
                      ListDirectory(place));
  HF_ASSIGN_OR_RETURN(
      const std::string name,
      ChooseIndex(place, names, kTorchIndexSuffix, kTorchIndexFile));
  if (!name.empty()) {
    HF_ASSIGN_OR_RETURN(TorchFiles set, SetOfIndex(place / name));
    return std::optional(std::move(set));
  }
  TorchFiles set{place, place, TorchWeightsIn(names), std::nullopt};
  if (set.files.empty()) {
    return NotFoundError(place.path() + ": no file *" +
                         std::string(kTorchIndexSuffix) +
                         ", and no pytorch_model.bin");
  }
  return std::optional(std::move(set));
}

// Returns whether each member of the file has a CRC.
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
    HF_ASSIGN_OR_RETURN(const std::optional<TorchFiles> set, FindSet(place));
    auto opened = set ? OpenWholeSet(*set, verify) : OpenFile(place, verify);
    if (!opened.ok()) {
      return opened.status().WithContext((set ? set->named : place).path());
    }
    return opened;
  });
}

Result<std::vector<Place>> CheckedArchives(const Place& place) {
  HF_ASSIGN_OR_RETURN(const std::optional<TorchFiles> set, FindSet(place));
  std::vector<Place> files = {place};
  if (set) {
    files.clear();
    for (const auto& [name, file] : set->places()) files.push_back(file);
  }
  for (const Place& file : files) {
    HF_ASSIGN_OR_RETURN(const bool has_checksums, HasChecksums(file));
    if (!has_checksums) return std::vector<Place>();
  }
  return files;
}

}  // namespace holdfast
