#include "engine/restore/item.h"

#include <unordered_map>
#include <unordered_set>

#include "engine/check/checked_store.h"
#include "engine/check/view_sources.h"
#include "engine/commit/known_formats.h"
#include "engine/format/aggregate.h"
#include "engine/format/array_metadatas.h"
#include "engine/format/array_specs.h"
#include "engine/format/directory_names.h"
#include "engine/format/fingerprints_file.h"
#include "engine/format/sharding_file.h"
#include "engine/format/strings_file.h"
#include "engine/restore/array_index.h"
#include "engine/restore/leaf_request.h"
#include "ground/base/status_macros.h"
#include "ground/base/utf8.h"
#include "ground/fingerprint/sum.h"
#include "ground/tree/flatten.h"
#include "ground/tree/value_type.h"
#include "stores/place/directory_ops.h"
#include "stores/place/place.h"
#include "stores/storage/url_path.h"

namespace holdfast {
namespace {

ValueKind KindOfValue(const Tree& value) {
  switch (value.kind()) {
    case NodeKind::kDict:
      return ValueKind::kEmptyDict;
    case NodeKind::kList:
      return ValueKind::kEmptyList;
    case NodeKind::kTuple:
    case NodeKind::kNamedTuple:
      return ValueKind::kEmptyTuple;
    case NodeKind::kLeaf:
      break;
  }
  switch (value.leaf_kind()) {
    case LeafKind::kScalar:
      return ValueKind::kScalar;
    case LeafKind::kString:
      return ValueKind::kString;
    case LeafKind::kBytes:
      return ValueKind::kBytes;
    case LeafKind::kNone:
      return ValueKind::kNone;
    case LeafKind::kPlaceholder:
      return ValueKind::kPlaceholder;
    default:
      return ValueKind::kArray;
  }
}

}  // namespace

// Opens one item step by step; each step fills in a part of the Item.
class ItemOpener {
 public:
  ItemOpener(const ItemPlace& place, const OpenOptions& options)
      : item_(new Item(place)), options_(options) {}

  Result<std::unique_ptr<Item>> OpenArrays(
      const std::vector<Item::ArrayRequest>& requests) {
    HF_RETURN_IF_ERROR(OpenFiles());
    SetMissingPolicy(false);
    if (item_->place_.kind == ItemKind::kOcdbt) {
      HF_RETURN_IF_ERROR(OpenDatabase());
    }
    for (const Item::ArrayRequest& request : requests) {
      StoredLeaf leaf;
      leaf.path = {KeyElement{request.name}};
      AddLeafOfArray(std::move(leaf), request.name,
                     ReadArrayMetadata(request.name, request.metadata_key));
    }
    return std::move(item_);
  }

  Result<std::unique_ptr<Item>> Open() {
    HF_RETURN_IF_ERROR(OpenFiles());
    if (item_->place_.kind == ItemKind::kJson) {
      HF_RETURN_IF_ERROR(AddJsonLeaf());
    } else if (item_->place_.kind == ItemKind::kPytree) {
      HF_RETURN_IF_ERROR(OpenPytree());
    } else {
      HF_RETURN_IF_ERROR(OpenBareArrays());
    }
    HF_RETURN_IF_ERROR(exhausted_);
    return std::move(item_);
  }

 private:
  Status OpenFiles() {
    item_->files_ = item_->place_.store;
    if (item_->files_ == nullptr) {
      item_->files_ = item_->place_.directory.OpenStore();
    }
    item_->checked_ = CheckedFiles::Unchecked(item_->files_);
    if (!options_.verify) return OpenSources();
    if (item_->place_.checked != nullptr) {
      item_->checked_ = *item_->place_.checked;
    } else {
      // Uses the lists above the item as well, if reading them costs no
      // requests.
      const bool is_near =
          item_->place_.store == nullptr && files().requests_in_flight() <= 1;
      HF_ASSIGN_OR_RETURN(item_->checked_,
                          is_near
                              ? CheckedFiles::OfItem(item_->place_.directory)
                              : CheckedFiles::OfDirectory(item_->files_));
    }
    // From here on every read of the item's files is checked.
    HF_ASSIGN_OR_RETURN(const auto list, ListOfFiles());
    if (list != nullptr) {
      HF_ASSIGN_OR_RETURN(item_->files_,
                          WithSources(item_->files_, item_->place_.directory,
                                      *list, /*must_match=*/true));
      item_->files_ = std::make_shared<CheckedStore>(item_->files_, list);
    }
    return Status();
  }

  // Opens the sources of a view without checking them. The list, which may be
  // long, is read only if the item may have links, and only for the locations
  // of the files.
  Status OpenSources() {
    if (!MayHaveLinks(item_->place_.directory)) return Status();
    const auto list = DigestIndex::Read(files());
    if (!list.ok() || !list->has_value()) return Status();
    HF_ASSIGN_OR_RETURN(item_->files_,
                        WithSources(item_->files_, item_->place_.directory,
                                    **list, /*must_match=*/false));
    return Status();
  }

  // Returns the item's own list. If a single array of an item is opened by
  // itself, returns the list that covers it.
  Result<std::shared_ptr<const DigestIndex>> ListOfFiles() {
    const ItemPlace& place = item_->place_;
    const bool is_part = place.kind == ItemKind::kZarr && !place.store;
    if (checked().own_list() || !is_part) return checked().own_list();
    return CheckedFiles::ListFor(item_->files_, place.directory);
  }

  Store& files() { return *item_->files_; }
  const CheckedFiles& checked() { return item_->checked_; }

  Result<Bytes> ReadFile(std::string_view name) { return checked().Read(name); }

  // Returns whether the file exists; DataLoss if it is missing but existed when
  // the item was saved.
  Result<bool> Exists(std::string_view name) {
    const Status found = files().Stat(name).status();
    if (found.ok()) return true;
    // A file whose existence cannot be checked may exist.
    if (found.code() != StatusCode::kNotFound) return found;
    HF_RETURN_IF_ERROR(checked().CheckGone(name));
    return false;
  }

  Status AddJsonLeaf() {
    HF_ASSIGN_OR_RETURN(const Bytes text, ReadFile(item_->place_.json_file));
    if (!IsValidUtf8(text.view())) {
      return DataLossError(files().Describe(item_->place_.json_file) +
                           " is damaged: want a text, got bytes that are not "
                           "UTF-8");
    }
    StoredLeaf leaf;
    leaf.info.kind = ValueKind::kJson;
    leaf.info.stored_bytes = leaf.info.decoded_bytes = text.size();
    leaf.value = Tree(text.ToString());
    item_->leaves_.push_back(std::move(leaf));
    return Status();
  }

  Status OpenDatabase() {
    if (checked().Lists(kManifestFile)) {
      HF_RETURN_IF_ERROR(ReadFile(kManifestFile).status());
    }
    HF_ASSIGN_OR_RETURN(auto database, ocdbt::Database::Open(&files(), "", {}));
    item_->ocdbt_store_ =
        std::make_unique<ocdbt::OcdbtStore>(std::move(database));
    return Status();
  }

  void SetMissingPolicy(bool all_chunks_were_stored) {
    item_->refuses_missing_ =
        options_.missing_chunks == MissingChunks::kRefuse ||
        (options_.missing_chunks == MissingChunks::kAsRecorded &&
         all_chunks_were_stored);
    layouts_.emplace(item_->refuses_missing_ ? MissingChunks::kRefuse
                                             : MissingChunks::kFill);
  }

  Status OpenBareArrays() {
    SetMissingPolicy(false);
    if (!item_->place_.is_named_by_file) {
      HF_RETURN_IF_ERROR(Exists(kTreeMetadataFile).status());
    }
    if (item_->place_.kind == ItemKind::kOcdbt) {
      HF_RETURN_IF_ERROR(OpenDatabase());
    }
    HF_RETURN_IF_ERROR(BuildIndex());
    for (const StoredArray& array : index_->arrays()) {
      StoredLeaf leaf;
      if (!array.name.empty()) leaf.path = {KeyElement{array.name}};
      AddArrayLeaf(std::move(leaf), array.name);
    }
    if (!item_->leaves_.empty()) return Status();
    return NotFoundError("no zarr array in " + item_->place_.directory.path() +
                         ": looked for keys ending in .zarray or zarr.json");
  }

  Status BuildIndex() {
    Result<ArrayIndex> index =
        item_->use_ocdbt()
            ? ArrayIndex::FromDatabase(*item_->database(), *item_->ocdbt_store_)
            : ArrayIndex::FromDirectory(files());
    if (!index.ok()) return index.status();
    index_ = std::move(index).value();
    return Status();
  }

  Status OpenPytree() {
    HF_ASSIGN_OR_RETURN(const bool has_tree_metadata,
                        Exists(kTreeMetadataFile));
    TreeMetadata metadata;
    if (has_tree_metadata) {
      HF_ASSIGN_OR_RETURN(const Bytes text, ReadFile(kTreeMetadataFile));
      Result<TreeMetadata> parsed = ParseTreeMetadata(text.view());
      if (!parsed.ok()) {
        return WithWhatFileIs(parsed.status(), files(), kTreeMetadataFile,
                              "orbax-file")
            .WithContext(files().Describe(kTreeMetadataFile));
      }
      metadata = std::move(parsed).value();
    }
    SetMissingPolicy(metadata.store_array_data_equal_to_fill_value);
    if (metadata.use_ocdbt.value_or(true)) {
      HF_ASSIGN_OR_RETURN(const bool has_database, Exists(kManifestFile));
      if (has_database) HF_RETURN_IF_ERROR(OpenDatabase());
      if (!has_database) HF_RETURN_IF_ERROR(CheckIsMerged());
    }
    // From a server it is faster to read all nodes in a few batches than only
    // the needed ones one by one.
    const bool is_remote = files().requests_in_flight() > 1;
    if (options_.stored_sizes || (is_remote && item_->use_ocdbt())) {
      HF_RETURN_IF_ERROR(BuildIndex());
    } else if (is_remote) {
      ReadArraysAhead(metadata);
    }
    if (!has_tree_metadata) return AddLeavesOfAggregate();
    if (options_.fingerprints && options_.verify) {
      HF_RETURN_IF_ERROR(ReadFingerprints());
    }
    ReadPrngImpls(metadata);
    item_->leaves_.reserve(metadata.entries.size());
    for (TreeMetadataEntry& entry : metadata.entries) {
      AddLeafOfEntry(std::move(entry));
    }
    metadata.entries = {};
    item_->tree_metadata_ = std::move(metadata);
    return Status();
  }

  // Checks that no save left unmerged databases. Without a database, the arrays
  // would be looked for in directories.
  Status CheckIsMerged() {
    if (item_->place_.store != nullptr) return Status();
    HF_ASSIGN_OR_RETURN(const std::vector<std::string> names,
                        ListDirectory(item_->place_.directory));
    return CheckPartsAreMerged(item_->place_.directory, names);
  }

  void ReadArraysAhead(const TreeMetadata& metadata) {
    std::vector<std::string> names;
    for (const TreeMetadataEntry& entry : metadata.entries) {
      const ValueKind kind = KindOfValueType(entry.value_type);
      const bool is_array =
          kind == ValueKind::kArray || kind == ValueKind::kScalar;
      if (is_array && !entry.skip_deserialize) {
        names.push_back(ParamName(entry.path));
      }
    }
    std::vector<Result<StoredArray>> arrays =
        ReadStoredArrays(item_->array_store(), names, metadata.use_zarr3);
    for (size_t i = 0; i < names.size(); ++i) {
      arrays_ahead_.emplace(std::move(names[i]), std::move(arrays[i]));
    }
  }

  // Adds the leaves of the msgpack file, which held the structure before
  // `_METADATA` existed. T5X's file also holds specs.
  Status AddLeavesOfAggregate() {
    HF_RETURN_IF_ERROR(Aggregate().status());
    Tree tree = *std::move(*aggregate_);
    const ArraySpecs specs = TakeArraySpecs(tree);
    HF_ASSIGN_OR_RETURN(std::vector<FlatLeaf> leaves, Flatten(tree));
    for (FlatLeaf& flat : leaves) {
      StoredLeaf leaf;
      leaf.path = std::move(flat.path);
      const bool is_reference = flat.leaf->is_leaf() &&
                                flat.leaf->leaf_kind() == LeafKind::kReference;
      const auto spec =
          is_reference ? specs.find(flat.leaf->text()) : specs.end();
      if (spec != specs.end()) {
        AddLeafOfSpec(std::move(leaf), spec->second);
      } else {
        AddLeafOfValue(std::move(leaf), *flat.leaf);
      }
    }
    return Status();
  }

  void AddLeafOfSpec(StoredLeaf leaf, const ArraySpec& spec) {
    const std::string name = ParamName(leaf.path);
    leaf.problem = spec.problem;
    if (leaf.problem.ok() && !CheckKey(spec.array).ok()) {
      leaf.problem =
          DataLossError("its spec names the directory \"" + spec.array +
                        "\", which cannot be in the checkpoint");
    }
    if (!leaf.problem.ok()) {
      leaf.problem = leaf.problem.WithContext("leaf " + name);
      Add(std::move(leaf));
      return;
    }
    const Result<StoredArray> array = FindArray(spec.array);
    AddLeafOfArray(std::move(leaf), spec.array, array);
    StoredLeaf& added = item_->leaves_.back();
    if (!added.problem.ok() || !spec.shape || *spec.shape == added.info.shape) {
      return;
    }
    added.problem = DataLossError(
        "leaf " + name + ": got an array of shape " +
        ShapeToString(added.info.shape) + " in " +
        files().Describe(spec.array) + ", want " + ShapeToString(*spec.shape) +
        ", as " + files().Describe(options_.aggregate_filename) + " says");
  }

  void AddLeafOfValue(StoredLeaf leaf, const Tree& value) {
    if (value.is_leaf() && value.leaf_kind() == LeafKind::kReference) {
      AddArrayLeaf(std::move(leaf), value.text());
      return;
    }
    leaf.value = value;
    leaf.info.kind = KindOfValue(value);
    leaf.info.skip_deserialize = true;
    DescribeValue(leaf);
    Add(std::move(leaf));
  }

  static void DescribeValue(StoredLeaf& leaf) {
    const Tree& value = leaf.value;
    if (!value.is_leaf()) return;
    if (value.leaf_kind() == LeafKind::kArray) {
      leaf.info.dtype = value.array().dtype();
      leaf.info.shape = value.array().shape();
      leaf.info.decoded_bytes = value.array().byte_count();
    } else if (value.leaf_kind() == LeafKind::kScalar) {
      leaf.info.dtype = value.scalar().dtype;
      leaf.info.decoded_bytes = DTypeBytes(value.scalar().dtype);
    } else if (value.leaf_kind() == LeafKind::kString ||
               value.leaf_kind() == LeafKind::kBytes) {
      leaf.info.decoded_bytes = value.text().size();
    }
    leaf.info.stored_bytes = leaf.info.decoded_bytes;
  }

  void AddLeafOfEntry(TreeMetadataEntry entry) {
    StoredLeaf leaf;
    leaf.path = std::move(entry.path);
    leaf.info.value_type = std::move(entry.value_type);
    leaf.info.kind = KindOfValueType(leaf.info.value_type);
    leaf.info.skip_deserialize = entry.skip_deserialize;
    leaf.info.write_shape = std::move(entry.write_shape);
    if (IsEmptyKind(leaf.info.kind) ||
        leaf.info.kind == ValueKind::kPlaceholder) {
      leaf.value = EmptyValue(leaf.info.kind);
      Add(std::move(leaf));
    } else if (entry.skip_deserialize) {
      AddAggregatedLeaf(std::move(leaf));
    } else if (leaf.info.kind == ValueKind::kString) {
      AddStringLeaf(std::move(leaf));
    } else {
      const std::string name = ParamName(leaf.path);
      AddArrayLeaf(std::move(leaf), name);
    }
  }

  void AddAggregatedLeaf(StoredLeaf leaf) {
    const Result<const Tree*> tree = Aggregate();
    const Tree* value = tree.ok() ? *tree : nullptr;
    for (const KeyElement& element : leaf.path) {
      if (value != nullptr) value = value->Find(element.key);
    }
    if (value != nullptr) {
      AddLeafOfValue(std::move(leaf), *value);
      return;
    }
    leaf.problem =
        tree.ok() ? NotFoundError("leaf " + KeyPathRepr(leaf.path) +
                                  " is not in the msgpack file " +
                                  files().Describe(options_.aggregate_filename))
                  : tree.status();
    Add(std::move(leaf));
  }

  void AddStringLeaf(StoredLeaf leaf) {
    if (!strings_) strings_ = ReadStrings();
    const std::string name = ParamName(leaf.path);
    if (!strings_->ok()) {
      leaf.problem = strings_->status();
    } else if (const auto found = (*strings_)->find(name);
               found != (*strings_)->end()) {
      leaf.value = Tree(found->second);
      DescribeValue(leaf);
    } else {
      leaf.problem = NotFoundError("leaf " + name + " is not in " +
                                   files().Describe(kStringsFile));
    }
    Add(std::move(leaf));
  }

  void AddArrayLeaf(StoredLeaf leaf, const std::string& array_name) {
    AddLeafOfArray(std::move(leaf), array_name, FindArray(array_name));
  }

  void AddLeafOfArray(StoredLeaf leaf, const std::string& array_name,
                      const Result<StoredArray>& array) {
    leaf.prefix = ArrayPrefix(array_name);
    if (array.status().code() == StatusCode::kNotFound &&
        !IsStandardValueType(leaf.info.value_type)) {
      leaf.is_external = true;
      leaf.problem = FailedPreconditionError(
          "leaf " + ParamName(leaf.path) + ": a TypeHandler for typestr \"" +
          leaf.info.value_type + "\" is needed to read it");
    } else if (!array.ok()) {
      leaf.problem = array.status().WithContext("leaf " + ParamName(leaf.path));
    } else {
      leaf.problem = DescribeArray(*array, leaf);
    }
    if (const auto impl = prng_impls_.find(array_name);
        impl != prng_impls_.end()) {
      leaf.info.prng_impl = impl->second;
    }
    if (leaf.info.value_type == kValueTypeJaxArray) {
      if (leaf.problem.ok()) leaf.problem = prng_impls_status_;
      const Result<std::string_view> sharding = ShardingOf(array_name);
      if (sharding.ok()) leaf.sharding_json = *sharding;
      if (!sharding.ok() && leaf.problem.ok()) leaf.problem = sharding.status();
    }
    Add(std::move(leaf));
  }

  Result<StoredArray> FindArray(const std::string& name) {
    if (!index_) return ReadArrayMetadata(name);
    if (const StoredArray* array = index_->Find(name)) return *array;
    return ReadArrayMetadata(name);  // for its error
  }

  // Reads an array's metadata. An empty `key` means that of either format.
  Result<StoredArray> ReadArrayMetadata(const std::string& name,
                                        const std::string& key = {}) {
    HF_ASSIGN_OR_RETURN(StoredArray array,
                        key.empty()
                            ? ReadArrayOfName(name)
                            : ReadStoredArray(item_->array_store(), name, key));
    if (!item_->use_ocdbt()) {
      const std::string file =
          ArrayPrefix(name) +
          (key.empty() ? std::string(zarr::MetadataKey(array.zarr_format))
                       : key);
      HF_RETURN_IF_ERROR(checked().Check(file, array.metadata.view()));
    }
    return array;
  }

  Result<StoredArray> ReadArrayOfName(const std::string& name) {
    const auto ahead = arrays_ahead_.find(name);
    if (ahead == arrays_ahead_.end()) {
      return ReadStoredArray(item_->array_store(), name);
    }
    return ahead->second;
  }

  // Turns TensorStore's FailedPrecondition for metadata that cannot be parsed
  // into DataLoss. For a leaf, FailedPrecondition would mean that a TypeHandler
  // is missing and nothing is damaged.
  static Status DamageOfLayout(const Status& status) {
    const bool does_not_parse =
        status.code() == StatusCode::kFailedPrecondition;
    return does_not_parse ? DataLossError(std::string(status.message()))
                          : status;
  }

  Status DescribeArray(const StoredArray& array, StoredLeaf& leaf) {
    Result<std::shared_ptr<const ArrayLayout>> layout =
        layouts_->Get(array.metadata.view());
    if (!layout.ok()) {
      return DamageOfLayout(layout.status())
          .WithContext("leaf " + ParamName(leaf.path));
    }
    leaf.layout = std::move(layout).value();
    const zarr::ArrayMetadata& metadata = leaf.layout->format.metadata;
    if (ElementCount(metadata.shape) > kElementCountMax) {
      const Shape shape = metadata.shape;
      leaf.layout = nullptr;
      return DataLossError("leaf " + ParamName(leaf.path) + ": shape " +
                           ShapeToString(shape) + " is too large for memory");
    }
    item_->zarr_format_ = array.zarr_format;
    leaf.info.dtype = metadata.dtype;
    leaf.info.shape = metadata.shape;
    if (metadata.sharding) leaf.info.shard_shape = metadata.chunk_shape;
    leaf.info.chunk_shape = metadata.sharding ? metadata.sharding->chunk_shape
                                              : metadata.chunk_shape;
    leaf.info.codecs = leaf.layout->codecs_text;
    leaf.info.chunk_count = leaf.layout->grid.ChunkCount();
    if (options_.stored_sizes) {
      leaf.info.stored_bytes = array.stored_bytes;
    }
    leaf.info.decoded_bytes =
        ElementCount(metadata.shape) * DTypeBytes(metadata.dtype);
    return Status();
  }

  // Reads the fingerprints, if a list of the save names their file. Any other
  // file may be older than the arrays.
  Status ReadFingerprints() {
    if (!checked().Lists(kFingerprintsFile)) return Status();
    const Result<Bytes> text = ReadFile(kFingerprintsFile);
    HF_RETURN_IF_ERROR(text.status());
    Result<FingerprintsFile> file = ParseFingerprintsFile(text->view());
    if (!file.ok()) {
      return file.status().WithContext(files().Describe(kFingerprintsFile));
    }
    if (file->algorithm != kFingerprintAlgorithm) {
      return UnimplementedError(
          files().Describe(kFingerprintsFile) + ": algorithm \"" +
          file->algorithm + "\" is not known (want " +
          std::string(kFingerprintAlgorithm) + "); open without fingerprints");
    }
    fingerprints_ = std::move(file->tensors);
    return Status();
  }

  void Add(StoredLeaf leaf) {
    // Running out of memory is not a property of the leaf, so the open fails,
    // and the next one may succeed.
    if (leaf.problem.code() == StatusCode::kResourceExhausted) {
      exhausted_ = leaf.problem;
    }
    leaf.info.name = ParamName(leaf.path);
    const auto found = fingerprints_.find(leaf.info.name);
    if (leaf.layout != nullptr && found != fingerprints_.end()) {
      leaf.info.fingerprint = found->second;
    }
    item_->leaves_.push_back(std::move(leaf));
  }

  Result<const Tree*> Aggregate() {
    if (!aggregate_) {
      Result<Bytes> text = ReadFile(options_.aggregate_filename);
      aggregate_ = text.ok() ? ParseAggregate(text->view())
                             : Result<Tree>(text.status());
      if (!aggregate_->ok()) {
        const Status why =
            WithWhatFileIs(aggregate_->status(), files(),
                           options_.aggregate_filename, "flax-msgpack");
        aggregate_ =
            why.WithContext(files().Describe(options_.aggregate_filename));
      }
    }
    if (!aggregate_->ok()) return aggregate_->status();
    return &aggregate_->value();
  }

  Result<StringsFile> ReadStrings() {
    HF_ASSIGN_OR_RETURN(const Bytes text, ReadFile(kStringsFile));
    Result<StringsFile> strings = ParseStringsFile(text.view());
    if (strings.ok()) return strings;
    return strings.status().WithContext(files().Describe(kStringsFile));
  }

  // Returns the array's sharding; empty if none is recorded. A file that
  // differs from its digest is DataLoss. An invalid file that never had a
  // digest is reported only by Verify, because no value depends on it.
  Result<std::string_view> ShardingOf(const std::string& array_name) {
    if (!shardings_status_) shardings_status_ = ReadShardings();
    if (!shardings_status_->ok()) return *shardings_status_;
    const auto found = item_->shardings_.find(array_name);
    return found == item_->shardings_.end() ? std::string_view()
                                            : found->second;
  }

  Status ReadShardings() {
    const Result<Bytes> text = ReadFile(kShardingFile);
    if (text.status().code() == StatusCode::kNotFound) return Status();
    if (!text.ok()) return text.status();
    Result<ShardingFile> parsed = ParseShardingFile(text->view());
    if (parsed.ok()) item_->shardings_ = std::move(parsed).value();
    return Status();
  }

  // Finds out which arrays are typed PRNG keys. Every process leaves a file,
  // which is usually about all arrays, so one of perhaps thousands is enough. A
  // damaged file is a problem of all leaves that may be keys.
  void ReadPrngImpls(const TreeMetadata& metadata) {
    std::unordered_set<std::string> unknown;
    for (const TreeMetadataEntry& entry : metadata.entries) {
      if (entry.value_type == kValueTypeJaxArray) {
        unknown.insert(ParamName(entry.path));
      }
    }
    if (unknown.empty()) return;
    const std::string prefix = std::string(kArrayMetadatasDirectory) + "/";
    (void)files().List(prefix, [&](std::string_view key, const ObjectInfo&) {
      const Result<Bytes> text = ReadFile(key);
      if (!text.ok()) {
        NotePrngProblem(text.status());
        return Status();
      }
      const auto records = ParseArrayMetadatas(text->view());
      if (!records.ok()) {
        NotePrngProblem(records.status().WithContext(files().Describe(key)));
        return Status();
      }
      for (const ArrayMetadataRecord& record : *records) {
        if (unknown.erase(record.param_name) == 0) continue;
        std::string impl = PrngImplOf(record.ext_metadata);
        if (!impl.empty()) prng_impls_[record.param_name] = std::move(impl);
      }
      return unknown.empty() ? CancelledError("all are known") : Status();
    });
    if (unknown.empty()) {
      prng_impls_status_ = Status();  // the other files were sufficient
      return;
    }
    checked().ForEachListed(prefix, [&](const FileDigest& row) {
      if (!files().Stat(row.path).ok()) {
        NotePrngProblem(checked().CheckGone(row.path));
      }
    });
  }

  void NotePrngProblem(const Status& problem) {
    const bool is_damage = problem.code() == StatusCode::kDataLoss;
    if (is_damage && prng_impls_status_.ok()) prng_impls_status_ = problem;
  }

  // 2^46 bytes of address space, at one byte or more per element.
  static constexpr int64_t kElementCountMax = int64_t{1} << 46;

  std::unique_ptr<Item> item_;
  const OpenOptions& options_;
  std::optional<ArrayLayoutCache> layouts_;
  std::optional<ArrayIndex> index_;
  std::unordered_map<std::string, Result<StoredArray>> arrays_ahead_;
  std::optional<Result<Tree>> aggregate_;
  std::optional<Result<StringsFile>> strings_;
  std::optional<Status> shardings_status_;
  std::unordered_map<std::string, std::string> prng_impls_;
  Status prng_impls_status_;
  FingerprintTexts fingerprints_;  // of the arrays
  Status exhausted_;               // out of memory while describing a leaf
};

Store& Item::array_store() const {
  if (ocdbt_store_ != nullptr) return *ocdbt_store_;
  return *files_;
}

Status Item::CheckStillThere() const {
  return CheckSamePlace(place_.directory, directory_id_);
}

Result<std::unique_ptr<Item>> Item::OpenArrays(
    const std::string& directory, bool use_ocdbt,
    const std::vector<ArrayRequest>& requests, const OpenOptions& options) {
  ItemPlace place;
  place.directory = Place(directory);
  place.kind = use_ocdbt ? ItemKind::kOcdbt : ItemKind::kZarr;
  return ItemOpener(place, options).OpenArrays(requests);
}

Result<std::unique_ptr<Item>> Item::Open(const ItemPlace& place,
                                         const OpenOptions& options) {
  return ItemOpener(place, options).Open();
}

}  // namespace holdfast
