// SaveDelta: the base is read and compared batch by batch, the differences are
// kept, and one save writes them.
#include <algorithm>
#include <cstring>
#include <functional>
#include <nlohmann/json.hpp>
#include <set>
#include <unordered_map>

#include "engine/format/checkpoint_metadata.h"
#include "engine/format/directory_names.h"
#include "engine/format/own_documents.h"
#include "engine/references/base_record.h"
#include "engine/references/content_hash.h"
#include "engine/references/reference_lock.h"
#include "engine/references/referrers.h"
#include "engine/restore/leaf_request.h"
#include "engine/save/array_source.h"
#include "engine/save/float_sums.h"
#include "foreign/chain/delta_info.h"
#include "formats/delta/array_delta.h"
#include "formats/delta/chunk_delta.h"
#include "ground/base/coding.h"
#include "ground/base/no_throw.h"
#include "ground/base/status_macros.h"
#include "ground/record/call_record.h"
#include "ground/run/run.h"
#include "ground/tensor/copy.h"
#include "ground/tree/flatten.h"
#include "holdfast/delta.h"
#include "holdfast/pending_save.h"
#include "holdfast/process_group.h"
#include "stores/storage/read_if_there.h"
#include "tools/deltas/batches.h"
#include "tools/deltas/choose_base.h"

namespace holdfast {
namespace {

constexpr uint64_t kDeltaChunkBytes = uint64_t{8} << 20;
constexpr size_t kNoLeaf = ~size_t{0};
// The most attempts to find a base while other writers change it.
constexpr int kBaseAttempts = 3;

// An array of the new tree, with its differences.
struct NewArray {
  std::string name;
  ArraySource source;
  DType dtype = DType::kUint8;  // as stored
  size_t base_leaf = kNoLeaf;
  ChunkGrid grid;
  std::vector<std::string> deltas;  // of the chunks
  std::vector<ChunkDeltaEntry> entries;

  ArrayState state() const {
    if (base_leaf == kNoLeaf) return ArrayState::kNew;
    const bool is_same = std::ranges::all_of(
        deltas, [](const std::string& delta) { return delta.empty(); });
    return is_same ? ArrayState::kSame : ArrayState::kChanged;
  }
};

struct ChunkTask {
  size_t array = 0;
  int64_t number = 0;
  Box box;
  uint64_t byte_count = 0;
  Buffer* base = nullptr;  // memory that the next batch reuses
};

// Returns nullopt for leaves that a delta cannot hold.
std::optional<ValueKind> KindOfLeaf(const FlatLeaf& flat) {
  if (flat.leaf->is_leaf()) {
    switch (flat.leaf->leaf_kind()) {
      case LeafKind::kReference:
      case LeafKind::kExternal:
      case LeafKind::kObject:
        return std::nullopt;
      case LeafKind::kBytes:
        return ValueKind::kBytes;
      default:
        break;
    }
  }
  return KindOfValueType(flat.value_type);
}

// Returns the final name of the item. Until the item is committed, its
// directory may have another name.
std::string ItemNameOf(const std::string& directory) {
  if (directory.empty()) return directory;
  const std::string name = Place(directory).name();
  return FinalName(name).value_or(name);
}

class DeltaSaver {
 public:
  // If `item` is not empty, the delta is an item of the step and is written
  // there; otherwise it is the complete step.
  DeltaSaver(const std::string& step, const std::string& item,
             const SaveOptions& options)
      : path_(step),
        item_(item),
        options_(options),
        run_(options.run),
        coders_(run_.executor().thread_count()) {}

  Result<DeltaResult> Save(const Tree& tree, const std::string& base_path) {
    HF_RETURN_IF_ERROR(OfBase(OpenBase(base_path)));
    HF_RETURN_IF_ERROR(Describe(tree));
    if (!item_.empty()) HF_RETURN_IF_ERROR(OfBase(SayBase()));
    HF_RETURN_IF_ERROR(EncodeAll());
    HF_RETURN_IF_ERROR(OfBase(CheckBaseStayed()));
    return Write();
  }

  // Returns whether a run should save a full step because Save failed: the base
  // is damaged, was deleted or was replaced, or no base would do.
  bool has_base_failed() const { return has_base_failed_; }

 private:
  Status OfBase(Status status) {
    has_base_failed_ |= IsDamage(status) ||
                        status.code() == StatusCode::kFailedPrecondition ||
                        status.code() == StatusCode::kUnavailable ||
                        status.code() == StatusCode::kNotFound;
    return status;
  }
  // Marks a failure that does not depend on the base. A run then saves a full
  // step.
  Status OfTree(Status status) {
    has_base_failed_ = true;
    return status;
  }

  Status OpenBase(const std::string& base_path) {
    OpenOptions open;
    open.stored_sizes = false;
    open.item = info_.item = ItemNameOf(item_);
    HF_ASSIGN_OR_RETURN(base_, Open(base_path, open));
    const Place base(base_->info().path);
    HF_RETURN_IF_ERROR(CheckNoCircle());
    NameBase(Place(path_), base, info_.base);
    info_.base.id = base_->info().result_id;
    info_.order = base_->info().bases.size() + 1;
    info_.chunk_bytes = kDeltaChunkBytes;
    if (info_.order > kChainLengthMax) {
      return FailedPreconditionError(
          "save " + path_ + ": its base is the last of a chain of " +
          std::to_string(kChainLengthMax) +
          " deltas; materialize it, or save a whole step");
    }
    HF_ASSIGN_OR_RETURN(info_.base.content_hash, ContentHash(base));
    for (size_t i = 0; i < base_->leaves().size(); ++i) {
      base_leaves_.emplace(base_->leaves()[i].name, i);
    }
    return Status();
  }

  Status CheckNoCircle() const {
    const CheckpointInfo& base = base_->info();
    if (IsSamePlace(Place(base.path), Place(path_))) {
      return InvalidArgumentError("save " + path_ +
                                  ": a delta cannot be its own base");
    }
    HF_ASSIGN_OR_RETURN(const bool is_made_from,
                        IsMadeFrom(base.path, base.bases, Place(path_)));
    if (!is_made_from) return Status();
    return InvalidArgumentError(
        "save " + path_ + ": its base " + base.path +
        " is made from the step that it would replace; choose a base that "
        "is not, or materialize " +
        base.path + " first");
  }

  // Writes the base's path into the item, which other code commits later. From
  // here on, code that removes steps can see which base the item needs.
  Status SayBase() {
    const ReferenceLock lock(Place(path_).parent());
    HF_RETURN_IF_ERROR(CheckBaseStayed());
    return Place(item_).OpenStore()->Write(kBaseFile, info_.base.path);
  }

  Status Describe(const Tree& tree) {
    HF_ASSIGN_OR_RETURN(
        const std::vector<FlatLeaf> leaves,
        Flatten(tree, {.support_rich_types = options_.support_rich_types}));
    HF_RETURN_IF_ERROR(CheckParamNames(leaves));
    info_.tree.custom_metadata =
        SplitOwnDocuments(options_.custom_metadata).users;
    info_.tree.item_custom_metadata =
        SplitOwnDocuments(options_.item_custom_metadata).users;
    info_.tree.value_metadata_tree = options_.value_metadata_tree;
    std::set<std::string> names;
    for (const FlatLeaf& leaf : leaves) {
      HF_RETURN_IF_ERROR(DescribeLeaf(leaf));
      names.insert(ParamName(leaf.path));
    }
    if (names.contains(std::string(kDeltaMarkArray))) {
      return OfTree(InvalidArgumentError(
          "save " + path_ +
          ": a delta has an array of its own that is called " +
          std::string(kDeltaMarkArray) + "; save a whole step"));
    }
    for (const auto& [name, args] : options_.save_args) {
      if (!names.contains(name)) {
        return InvalidArgumentError("save " + path_ + ": save_args of " + name +
                                    ", which the tree does not have");
      }
    }
    return Status();
  }

  Status DescribeLeaf(const FlatLeaf& flat) {
    const std::optional<ValueKind> kind = KindOfLeaf(flat);
    const std::string name = ParamName(flat.path);
    if (!kind) {
      return InvalidArgumentError("save " + path_ + ": leaf " + name +
                                  ": its kind is unknown, want an array, a "
                                  "scalar, a string or an empty value");
    }
    SidecarLeaf& leaf = info_.tree.leaves.emplace_back();
    for (const KeyElement& element : flat.path) {
      leaf.key.push_back(element.key);
      leaf.key_kinds.push_back(element.kind);
    }
    leaf.kind = *kind;
    leaf.value_type = flat.value_type;
    if (HasText(*kind)) leaf.text = flat.leaf->text();
    if (*kind == ValueKind::kScalar) {
      const Scalar& scalar = flat.leaf->scalar();
      leaf.dtype = scalar.dtype;
      leaf.text.assign(reinterpret_cast<const char*>(scalar.bytes.data()),
                       DTypeBytes(scalar.dtype));
    }
    return *kind == ValueKind::kArray ? DescribeArray(*flat.leaf, name, leaf)
                                      : Status();
  }

  Status DescribeArray(const Tree& tree, const std::string& name,
                       SidecarLeaf& leaf) {
    NewArray array;
    HF_ASSIGN_OR_RETURN(array.source, ArraySource::Of(tree));
    const auto args = options_.save_args.find(name);
    array.dtype = args == options_.save_args.end()
                      ? array.source.dtype()
                      : args->second.dtype.value_or(array.source.dtype());
    leaf.dtype = array.dtype;
    leaf.shape = array.source.shape();
    if (tree.array_kind() == ArrayKind::kJax) {
      leaf.sharding_json = tree.sharding_json();
      leaf.prng_impl = tree.array_traits().prng_impl;
      const Shape& write_shape = tree.array_traits().write_shape;
      leaf.write_shape = write_shape.empty() ? leaf.shape : write_shape;
    }
    if (ElementCount(leaf.shape) == 0) return Status();  // has no bytes
    array.name = leaf.stored =
        name.empty() ? std::string(kNamelessArray) : name;
    array.grid = {leaf.shape,
                  DeltaChunkShape(leaf.shape, array.dtype, kDeltaChunkBytes)};
    const auto found = base_leaves_.find(name);
    if (found != base_leaves_.end()) {
      const LeafInfo& base = base_->leaves()[found->second];
      HF_RETURN_IF_ERROR(OfBase(base.problem));
      if (base.kind == ValueKind::kArray && base.dtype == array.dtype &&
          base.shape == leaf.shape) {
        array.base_leaf = found->second;
      }
    }
    const auto chunk_count = static_cast<size_t>(array.grid.ChunkCount());
    array.deltas.resize(chunk_count);
    array.entries.resize(chunk_count);
    arrays_.push_back(std::move(array));
    return Status();
  }

  Status EncodeAll() {
    std::vector<ChunkTask> tasks;
    for (size_t i = 0; i < arrays_.size(); ++i) {
      int64_t number = 0;
      for (const Box& box : arrays_[i].grid.ChunkBoxes()) {
        const uint64_t bytes = static_cast<uint64_t>(ElementCount(box.shape)) *
                               DTypeBytes(arrays_[i].dtype);
        total_bytes_ += bytes;
        tasks.push_back({i, number++, box, bytes, nullptr});
      }
    }
    run_.StartPhase("encode", total_bytes_);
    return ForEachBatch(
        std::span(tasks), options_.run,
        [&](std::span<ChunkTask> batch) { return EncodeBatch(batch); });
  }

  Status EncodeBatch(std::span<ChunkTask> tasks) {
    std::vector<ReadRequest> requests;
    places_.resize(std::max(places_.size(), tasks.size()));
    for (size_t i = 0; i < tasks.size(); ++i) {
      ChunkTask& task = tasks[i];
      const NewArray& array = arrays_[task.array];
      places_[i].Reserve(task.byte_count);
      task.base = &places_[i];
      if (array.base_leaf == kNoLeaf) {
        std::memset(task.base->data(), 0, task.byte_count);
      } else {
        requests.push_back({array.base_leaf, task.box.origin,
                            ViewOf(array, task.box, task.base->data())});
      }
    }
    if (!requests.empty()) {
      RunOptions read = options_.run;
      read.progress = nullptr;
      HF_RETURN_IF_ERROR(OfBase(base_->ReadInto(requests, read).status()));
    }
    return run_.executor().ParallelFor(
        tasks.size(),
        [&](size_t i, int worker) -> Status {
          HF_RETURN_IF_ERROR(EncodeChunk(tasks[i], coders_.Of(worker)));
          run_.AddDone(tasks[i].byte_count);
          return Status();
        },
        &run_.cancel());
  }

  static ArrayView ViewOf(const NewArray& array, const Box& box, char* data) {
    return {array.dtype, data, box.shape,
            ContiguousStrides(box.shape, DTypeBytes(array.dtype))};
  }

  // Returns the chunk's new elements in place, or nullopt if they do not have
  // their stored form there.
  static std::optional<std::string_view> FindElements(const NewArray& array,
                                                      const ChunkTask& task) {
    if (array.dtype != array.source.dtype()) return std::nullopt;
    const std::optional<ConstArrayView> found = array.source.Find(task.box);
    if (!found || !IsContiguous(*found)) return std::nullopt;
    const std::string_view elements(found->data, task.byte_count);
    const bool is_aligned =
        reinterpret_cast<uintptr_t>(found->data) % DTypeBytes(array.dtype) == 0;
    if (!is_aligned || HasUnusedBits(array.dtype, elements))
      return std::nullopt;
    return elements;
  }

  Status EncodeChunk(const ChunkTask& task, ChunkDelta& delta) {
    NewArray& array = arrays_[task.array];
    Buffer scratch;
    std::optional<std::string_view> next = FindElements(array, task);
    if (!next) {
      scratch = Buffer(task.byte_count);
      HF_RETURN_IF_ERROR(array.source.CopyTo(
          task.box, ViewOf(array, task.box, scratch.data())));
      ClearUnusedBits(array.dtype, scratch.data(),
                      task.byte_count / DTypeBytes(array.dtype));
      next = scratch.view();
    }
    const std::string_view base = task.base->view().substr(0, task.byte_count);
    HF_ASSIGN_OR_RETURN(array.deltas[task.number],
                        delta.Encode(WordKindOf(array.dtype), base, *next));
    ChunkDeltaEntry& entry = array.entries[task.number];
    entry.base_hash = ChunkHash(base);
    entry.result_hash =
        array.deltas[task.number].empty() ? entry.base_hash : ChunkHash(*next);
    return Status();
  }

  // Fails if the base was rewritten while it was read: the elements could then
  // belong to two steps.
  Status CheckBaseStayed() const {
    HF_ASSIGN_OR_RETURN(const std::string files,
                        ContentHash(Place(base_->info().path)));
    if (files == info_.base.content_hash) return Status();
    return FailedPreconditionError("save " + path_ + ": the base " +
                                   base_->info().path +
                                   " changed while it was read");
  }

  static Result<Array> BytesOfArray(NewArray& array) {
    uint64_t end = 0;
    for (size_t i = 0; i < array.deltas.size(); ++i) {
      end += array.deltas[i].size();
      array.entries[i].end = end;
    }
    const std::string head = WriteArrayDeltaHead(array.entries);
    HF_ASSIGN_OR_RETURN(
        Array bytes,
        Array::Allocate(DType::kUint8,
                        {static_cast<int64_t>(head.size() + end)}));
    char* to = bytes.mutable_view().data;
    std::memcpy(to, head.data(), head.size());
    to += head.size();
    for (std::string& delta : array.deltas) {
      std::memcpy(to, delta.data(), delta.size());
      to += delta.size();
      delta = std::string();
    }
    return bytes;
  }

  Result<Tree> StoredTree() {
    const std::string mark(1, '\0');
    std::vector<Tree::Member> members = {
        {std::string(kDeltaMarkArray),
         Array::FromBytes(DType::kUint8, {1}, mark.data())}};
    for (NewArray& array : arrays_) {
      std::string hashes;
      for (const ChunkDeltaEntry& entry : array.entries) {
        PutU64Little(hashes, entry.result_hash);
      }
      info_.hashes.push_back(ChunkHash(hashes));
      info_.states.push_back(array.state());
      AddFloats(array, hashes);
      if (info_.states.back() == ArrayState::kSame) continue;
      ++result_.changed_array_count;
      HF_ASSIGN_OR_RETURN(Array bytes, BytesOfArray(array));
      members.emplace_back(array.name, std::move(bytes));
    }
    if (has_base_floats_) TakeFloatsOfBase();
    info_.id = DeltaResultId(info_);
    return Tree::Dict(std::move(members));
  }

  void AddFloats(const NewArray& array, const std::string& hashes) {
    const Shape& shape = array.source.shape();
    if (!CountsAsFloats(array.dtype, shape)) return;
    *floats_ +=
        {ChunkHash(hashes + array.name), 1,
         static_cast<uint64_t>(ElementCount(shape)) * DTypeBytes(array.dtype)};
    has_base_floats_ &= array.state() == ArrayState::kSame;
  }

  // Describes the arrays as the base does, which may be a whole step and then
  // has another hash of the same arrays.
  void TakeFloatsOfBase() {
    const Place base(base_->info().path);
    const Place place = info_.item.empty() ? base : base / info_.item;
    const auto digests =
        ReadIfThere(*place.OpenStore(), kDigestFile, ParseDigestFile);
    if (!digests.ok() || !*digests) return;
    const std::optional<FloatArrays>& theirs = (*digests)->floats;
    // If the base has more arrays, they are not the same.
    if (theirs && theirs->array_count == floats_->array_count) {
      floats_ = theirs;
    }
  }

  Result<DeltaResult> Write() {
    HF_ASSIGN_OR_RETURN(const Tree tree, StoredTree());
    SaveOptions save = options_;
    save.compression = Compression::kNone;
    save.save_args.clear();
    save.also = nullptr;
    save.fingerprints = false;  // useless for differences
    save.value_metadata_tree.clear();
    save.support_rich_types = false;
    save.floats = &floats_;
    nlohmann::ordered_json metadata = {
        {std::string(kDeltaKey), DeltaInfoToJson(info_)}};
    save.item_documents = metadata.dump();
    if (!item_.empty()) return WriteItem(tree, std::move(save));
    PendingSaveOptions begin;
    begin.overwrite = options_.overwrite;
    begin.sync = options_.sync;
    begin.write_digests = options_.write_digests;
    begin.now_ns = options_.now_ns;
    begin.commit_mode = options_.commit_mode;
    begin.directory_mode = options_.directory_mode;
    begin.result_id = info_.id;
    begin.may_commit = [this] { return OfBase(CheckBaseStayed()); };
    HF_ASSIGN_OR_RETURN(const auto pending, PendingSave::Begin(path_, begin));
    HF_ASSIGN_OR_RETURN(SaveResult saved, pending->SaveItem("", tree, save));
    HF_RETURN_IF_ERROR(pending->WriteFile(kBaseFile, info_.base.path));
    RootRecord root;
    root.item_handlers_json = '"' + std::string(kPyTreeHandlerTypestr) + '"';
    root.custom_metadata = info_.tree.custom_metadata;
    HF_RETURN_IF_ERROR(pending->Commit(root));
    result_.notes = pending->notes();
    return Finished(saved);
  }

  Result<DeltaResult> WriteItem(const Tree& tree, SaveOptions save) {
    save.adopt_existing = true;
    HF_ASSIGN_OR_RETURN(const SaveResult saved, SaveItem(item_, tree, save));
    return Finished(saved);
  }

  DeltaResult Finished(const SaveResult& saved) {
    result_.stats = saved.stats;
    result_.stats.decoded_bytes = total_bytes_;
    result_.order = info_.order;
    result_.array_count = arrays_.size();
    return result_;
  }

  const std::string path_;
  const std::string item_;
  const SaveOptions& options_;
  Run run_;
  WorkerDeltas coders_;
  std::vector<Buffer> places_;  // base elements of a batch
  std::unique_ptr<Checkpoint> base_;
  std::unordered_map<std::string_view, size_t> base_leaves_;
  DeltaInfo info_;
  std::vector<NewArray> arrays_;  // the stored arrays of info_.tree
  std::optional<FloatArrays> floats_ = FloatArrays();
  bool has_base_floats_ = true;  // all are the base's
  uint64_t total_bytes_ = 0;
  DeltaResult result_;
  bool has_base_failed_ = false;
};

using SaveWholeFn = std::function<Result<SaveResult>()>;

Status CheckDeltaOptions(const std::string& path, const SaveOptions& options) {
  if (options.group != nullptr && options.group->size() > 1) {
    return UnimplementedError(
        "save " + path +
        ": a delta is written by one process; a group saves whole steps");
  }
  if (options.format != Format::kOrbax) {
    return InvalidArgumentError("save " + path +
                                ": a delta has Orbax's first format (" +
                                std::string(FormatName(Format::kOrbax)) + ")");
  }
  if (options.also != nullptr) {
    return InvalidArgumentError(
        "save " + path +
        ": a delta holds differences, which no other format has a place for; "
        "save a whole step with `also`, or convert the delta");
  }
  return Status();
}

// Checks options that only full steps support. A run may set them, and its
// deltas ignore them.
Status CheckOneDeltaOptions(const std::string& path,
                            const SaveOptions& options) {
  HF_RETURN_IF_ERROR(CheckDeltaOptions(path, options));
  if (options.fingerprints) {
    return InvalidArgumentError(
        "save " + path +
        ": fingerprints are only for whole steps, but with a base, a delta is "
        "written, which has its own hashes; leave out the fingerprints or the "
        "base");
  }
  if (options.compression != SaveOptions().compression) {
    return InvalidArgumentError(
        "save " + path +
        ": compression is only for whole steps, but with a base, a delta is "
        "written, which packs differences in its own way; leave out the "
        "compression or the base");
  }
  if (options.chunk_bytes != SaveOptions().chunk_bytes) {
    return InvalidArgumentError(
        "save " + path +
        ": chunk_bytes is only for whole steps, but with a base, a delta is "
        "written, which has chunks of 8 MiB; leave out chunk_bytes or the "
        "base");
  }
  return Status();
}

// Saves a delta on the newest usable step, or a full step. A run continues
// after a damaged step, but does not build on it.
Result<DeltaResult> SaveInRun(const std::string& step, const std::string& item,
                              const Tree& tree, uint64_t anchor_every,
                              const SaveOptions& options,
                              const SaveWholeFn& save_whole) {
  ChosenBase base;
  for (int attempt = 1; attempt <= kBaseAttempts; ++attempt) {
    HF_ASSIGN_OR_RETURN(base, ChooseBase(step, ItemNameOf(item), anchor_every));
    if (base.path.empty()) break;
    DeltaSaver saver(step, item, options);
    Result<DeltaResult> saved = saver.Save(tree, base.path);
    if (saved.ok() || !saver.has_base_failed()) return saved;
    base.why_whole = saved.status().ToString();
    if (!item.empty()) {
      HF_RETURN_IF_ERROR(Place(item).OpenStore()->Delete(kBaseFile));
    }
    // Unavailable: another save replaced the base, or materialized it. Then
    // another attempt can succeed.
    if (saved.status().code() != StatusCode::kUnavailable) break;
  }
  HF_ASSIGN_OR_RETURN(const SaveResult saved, save_whole());
  DeltaResult whole;
  whole.stats = saved.stats;
  whole.notes = saved.notes;
  whole.why_whole = std::move(base.why_whole);
  return whole;
}

// Runs `save` as one call, and measures its time.
Result<DeltaResult> InSave(const std::string& path,
                           const std::function<Result<DeltaResult>()>& save) {
  return InCall(CallKind::kSave, path, [&] {
    return CatchBadAlloc([&]() -> Result<DeltaResult> {
      Stopwatch watch;
      HF_ASSIGN_OR_RETURN(DeltaResult result, save());
      result.stats.total_seconds = watch.Lap();
      return result;
    });
  });
}

}  // namespace

Result<DeltaResult> SaveItemInChain(const std::string& directory,
                                    const Tree& tree, uint64_t anchor_every,
                                    const SaveOptions& options) {
  return InSave(directory, [&] {
    const std::string item = Place(directory).Absolute().path();
    const std::string step = Place(item).parent().path();
    return SaveInRun(step, item, tree, anchor_every, options,
                     [&] { return SaveItem(directory, tree, options); });
  });
}

Result<DeltaResult> SaveInChain(const std::string& path, const Tree& tree,
                                uint64_t anchor_every,
                                const SaveOptions& options) {
  HF_RETURN_IF_ERROR(CheckDeltaOptions(path, options));
  return InSave(path, [&] {
    return SaveInRun(path, "", tree, anchor_every, options,
                     [&] { return Save(path, tree, options); });
  });
}

Result<DeltaResult> SaveDelta(const std::string& path, const Tree& tree,
                              const std::string& base,
                              const SaveOptions& options) {
  HF_RETURN_IF_ERROR(CheckOneDeltaOptions(path, options));
  return InSave(path,
                [&] { return DeltaSaver(path, "", options).Save(tree, base); });
}

}  // namespace holdfast
