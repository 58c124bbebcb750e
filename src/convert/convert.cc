#include "holdfast/convert.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/no_throw.h"
#include "base/status_macros.h"
#include "base/string_coding.h"
#include "checkpoint/format/json_text.h"
#include "checkpoint/pending_saver.h"
#include "checkpoint/run.h"
#include "convert/check_copy.h"
#include "convert/item_tree.h"
#include "convert/target_layout.h"
#include "holdfast/process_group.h"

namespace holdfast {
namespace {

// How the bytes of the whole are shared: chunks that were read and wait, what
// reading and writing hold beside them, and a rest for what has no account.
struct Budgets {
  uint64_t waiting_bytes = 0;
  uint64_t read_bytes = 0;
  uint64_t write_bytes = 0;

  explicit Budgets(uint64_t bytes_max) {
    constexpr uint64_t kUnboundedWaitingBytes = uint64_t{1} << 30;
    waiting_bytes = bytes_max == 0 ? kUnboundedWaitingBytes : bytes_max / 2;
    if (bytes_max == 0) return;
    read_bytes = std::max<uint64_t>(1, bytes_max / 8);
    write_bytes = std::max<uint64_t>(1, bytes_max / 4);
  }
};

// Which leaves some names select: themselves, and what lies below them.
class NameSet {
 public:
  explicit NameSet(const std::vector<std::string>& names) {
    for (const std::string& name : names) is_used_.emplace(name, false);
  }

  bool Selects(const std::string& leaf) {
    if (is_used_.empty()) return true;
    bool found = Use(leaf);
    for (size_t dot = leaf.find('.'); dot != std::string::npos;
         dot = leaf.find('.', dot + 1)) {
      found |= Use(leaf.substr(0, dot));
    }
    return found;
  }

  // Null when every name has selected something.
  const std::string* FirstUnused() const {
    for (const auto& [name, is_used] : is_used_) {
      if (!is_used) return &name;
    }
    return nullptr;
  }

 private:
  bool Use(const std::string& name) {
    const auto found = is_used_.find(name);
    if (found == is_used_.end()) return false;
    return found->second = true;
  }

  std::map<std::string, bool> is_used_;
};

class Converter {
 public:
  Converter(std::string source, std::string target,
            const ConvertOptions& options)
      : source_path_(std::move(source)),
        target_path_(std::move(target)),
        options_(options),
        group_(options.group != nullptr && options.group->size() > 1
                   ? options.group
                   : nullptr),
        budgets_(options.run.in_flight_bytes_max) {}

  Result<ConvertResult> Execute() {
    HF_RETURN_IF_ERROR(OpenSource());
    HF_RETURN_IF_ERROR(Agree("plan", Prepare()));
    HF_RETURN_IF_ERROR(Save());
    if (options_.check) HF_RETURN_IF_ERROR(Agree("check", Check()));
    return Sum();
  }

 private:
  Status Agree(std::string_view phase, const Status& mine) const {
    return group_ == nullptr ? mine
                             : group_->Agree({phase, target_path_}, mine);
  }

  bool IsPrimary() const { return group_ == nullptr || group_->rank() == 0; }

  // A newer step may appear meanwhile: rank 0 says which it is.
  Status OpenSource() {
    if (!IsPrimary()) return OpenAnnounced();
    auto opened = OpenedCheckpoint::Open(source_path_, options_.open,
                                         ItemDetail::kForReading);
    if (opened.ok()) source_ = std::move(opened).value();
    if (group_ == nullptr) return opened.status();
    const std::string path = source_ != nullptr ? source_->info().path : "";
    const Status told =
        group_->Broadcast({"open", target_path_}, 0, path).status();
    if (!told.ok()) return told;
    return Agree("open", opened.status());
  }

  Status OpenAnnounced() {
    HF_ASSIGN_OR_RETURN(const std::string path,
                        group_->Broadcast({"open", target_path_}, 0, ""));
    if (path.empty()) return Agree("open", Status());  // fails as rank 0 says
    OpenOptions open = options_.open;
    open.step.reset();
    auto opened = OpenedCheckpoint::Open(path, open, ItemDetail::kForReading);
    if (opened.ok()) source_ = std::move(opened).value();
    return Agree("open", opened.status());
  }

  Status Prepare() {
    return CatchBadAlloc([&]() -> Status {
      ChooseFormat();
      HF_RETURN_IF_ERROR(SelectLeaves());
      std::vector<const Item*> items;
      for (const Wanted& wanted : wanted_) items.push_back(wanted.item);
      HF_ASSIGN_OR_RETURN(layout_,
                          MakeTargetLayout(source_->info(), items, format_));
      const ItemTreeOptions tree_options{options_.sharding,
                                         options_.use_replica_parallel};
      for (const Wanted& wanted : wanted_) {
        HF_ASSIGN_OR_RETURN(
            trees_.emplace_back(),
            MakeItemTree(*source_, wanted.leaves, tree_options));
      }
      return Status();
    });
  }

  void ChooseFormat() {
    const CheckpointInfo& info = source_->info();
    const bool is_orbax = info.format.starts_with("orbax");
    format_ = options_.format.value_or(
        info.format == "orbax-v1" ? Format::kOrbaxV1 : Format::kOrbax);
    zarr_format_ = options_.zarr_format.value_or(
        is_orbax && info.zarr_format != 0 ? info.zarr_format : 2);
    use_ocdbt_ = options_.use_ocdbt.value_or(!is_orbax || info.use_ocdbt ||
                                             info.zarr_format == 0);
  }

  struct Wanted {
    const Item* item = nullptr;
    std::vector<size_t> leaves;
  };

  Status SelectLeaves() {
    NameSet names(options_.names);
    for (size_t i = 0; i < source_->leaves().size(); ++i) {
      if (!names.Selects(source_->leaves()[i].name)) continue;
      const Item* item = source_->StoredLeafAt(i).first;
      if (wanted_.empty() || wanted_.back().item != item) {
        wanted_.push_back({item, {}});
      }
      wanted_.back().leaves.push_back(i);
    }
    if (const std::string* unused = names.FirstUnused()) {
      return NotFoundError("no leaf is named \"" + *unused +
                           "\" or lies below it");
    }
    if (!wanted_.empty()) return Status();
    return InvalidArgumentError("convert: " + source_->info().path +
                                " has no leaves");
  }

  SaveOptions SaveOptionsOf(const Item& item) const {
    SaveOptions save;
    save.run = options_.run;
    save.run.in_flight_bytes_max = budgets_.write_bytes;
    save.group = group_;
    save.format = format_;
    save.zarr_format = zarr_format_;
    save.use_ocdbt = use_ocdbt_;
    save.compression = options_.compression;
    save.chunk_bytes_target = options_.chunk_bytes_target;
    save.overwrite = options_.overwrite;
    save.write_digests = options_.write_digests;
    save.sync = options_.sync;
    save.now_ns = options_.now_ns;
    save.random_hex = options_.random_hex;
    const TreeMetadata* metadata = item.tree_metadata();
    if (metadata == nullptr) return save;
    if (!metadata->custom_metadata.is_null()) {
      save.item_custom_metadata = PythonJsonText(metadata->custom_metadata);
    }
    // It describes the whole tree.
    if (options_.names.empty()) {
      save.value_metadata_tree = metadata->value_metadata_tree.value_or("");
    }
    return save;
  }

  Status Save() {
    HF_ASSIGN_OR_RETURN(
        const auto pending,
        PendingSave::Begin(target_path_,
                           {group_, options_.overwrite, options_.sync,
                            options_.write_digests, options_.now_ns}));
    for (size_t i = 0; i < trees_.size(); ++i) {
      HF_RETURN_IF_ERROR(
          SaveItem(*pending, layout_.items[i], trees_[i], wanted_[i].leaves));
    }
    return pending->Commit(layout_.root);
  }

  Status SaveItem(PendingSave& pending, const TargetItem& target,
                  ItemTree& item, const std::vector<size_t>& leaves) {
    CopiedItem& copied = copied_.emplace_back();
    copied.leaves = leaves;
    result_.leaf_count += leaves.size();
    if (!target.json_file.empty()) {
      HF_ASSIGN_OR_RETURN(const std::string text, source_->ReadText(leaves[0]));
      return Agree("write", pending.WriteFile(
                                target.name + "/" + target.json_file, text));
    }
    const SaveOptions save = SaveOptionsOf(*item.item);
    // A plan that fails here fails in the same words in the save, where the
    // other ranks hear of it.
    const Result<SavePlan> plan =
        MakeSavePlan(item.tree, save, PlanPartOf(group_));
    std::vector<FeedUnit> units;
    if (plan.ok()) units = UnitsOf(*plan, budgets_.waiting_bytes / 2);
    ChunkFeed feed(*source_, std::move(units),
                   {ReadOptions(), budgets_.waiting_bytes});
    *item.feed = &feed;
    const Result<SaveResult> saved =
        pending.SaveItem(target.name, item.tree, save);
    *item.feed = nullptr;
    HF_RETURN_IF_ERROR(saved.status());
    result_.decoded_bytes += saved->stats.decoded_bytes;
    result_.written_bytes += saved->stats.stored_bytes;
    result_.read_bytes += feed.stored_bytes();
    result_.waiting_bytes_peak =
        std::max(result_.waiting_bytes_peak, feed.waiting_bytes_peak());
    copied.units = feed.units();
    copied.hashes = feed.hashes();
    return Status();
  }

  RunOptions ReadOptions() const {
    RunOptions run;
    run.thread_count = options_.run.thread_count;
    run.in_flight_bytes_max = budgets_.read_bytes;
    run.cancel = options_.run.cancel;
    return run;
  }

  Status Check() {
    return CatchBadAlloc([&]() -> Status {
      OpenOptions open;
      open.missing_chunks = options_.open.missing_chunks;
      HF_ASSIGN_OR_RETURN(
          const auto target,
          OpenedCheckpoint::Open(target_path_, open, ItemDetail::kForReading));
      const CheckOptions check{ReadOptions(), options_.run.progress,
                               budgets_.waiting_bytes, IsPrimary()};
      HF_ASSIGN_OR_RETURN(result_.checked_bytes,
                          CheckCopy(*source_, *target, copied_, check));
      return Status();
    });
  }

  // On every rank, of all.
  Result<ConvertResult> Sum() {
    result_.total_seconds = watch_.Lap();
    if (group_ == nullptr) return result_;
    std::string mine;
    for (const uint64_t value :
         {result_.decoded_bytes, result_.read_bytes, result_.written_bytes,
          result_.checked_bytes, result_.waiting_bytes_peak}) {
      PutVarint(mine, value);
    }
    HF_ASSIGN_OR_RETURN(const std::vector<std::string> all,
                        group_->AllGather({"done", target_path_}, mine));
    ConvertResult sum;
    sum.leaf_count = result_.leaf_count;
    sum.total_seconds = result_.total_seconds;
    for (const std::string& bytes : all) HF_RETURN_IF_ERROR(Add(bytes, sum));
    return sum;
  }

  static Status Add(std::string_view bytes, ConvertResult& sum) {
    Cursor cursor(bytes);
    ConvertResult one;
    if (!ReadVarint64(cursor, one.decoded_bytes) ||
        !ReadVarint64(cursor, one.read_bytes) ||
        !ReadVarint64(cursor, one.written_bytes) ||
        !ReadVarint64(cursor, one.checked_bytes) ||
        !ReadVarint64(cursor, one.waiting_bytes_peak)) {
      return DataLossError("convert: a report that cannot be understood");
    }
    sum.decoded_bytes += one.decoded_bytes;
    sum.read_bytes += one.read_bytes;
    sum.written_bytes += one.written_bytes;
    sum.checked_bytes += one.checked_bytes;
    sum.waiting_bytes_peak =
        std::max(sum.waiting_bytes_peak, one.waiting_bytes_peak);
    return Status();
  }

  const std::string source_path_;
  const std::string target_path_;
  const ConvertOptions& options_;
  ProcessGroup* const group_;
  const Budgets budgets_;
  Stopwatch watch_;
  std::unique_ptr<OpenedCheckpoint> source_;
  Format format_ = Format::kOrbax;
  int zarr_format_ = 2;
  bool use_ocdbt_ = true;
  std::vector<Wanted> wanted_;
  TargetLayout layout_;
  std::vector<ItemTree> trees_;     // as wanted_
  std::vector<CopiedItem> copied_;  // as wanted_
  ConvertResult result_;
};

}  // namespace

Result<ConvertResult> Convert(const std::string& source,
                              const std::string& target,
                              const ConvertOptions& options) {
  return CatchBadAlloc(
      [&] { return Converter(source, target, options).Execute(); });
}

}  // namespace holdfast
