#include "twins/fault_store.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <iterator>
#include <utility>

#include "ground/base/status_macros.h"
#include "stores/storage/piece_buffer.h"

namespace holdfast {
namespace {

// Disks write sectors of this size as a unit.
constexpr size_t kSectorBytes = 512;

std::string WriteName(std::string_view key, const WriteOptions& options) {
  std::string name = "write " + std::string(key);
  if (options.sync) name += " sync";
  if (options.atomic) name += " atomic";
  if (options.must_create) name += " must_create";
  return name;
}

}  // namespace

class FaultStore::Writer : public ObjectWriter {
 public:
  Writer(FaultStore* store, std::string key)
      : store_(store),
        key_(std::move(key)),
        crash_count_(store->crash_count_.load()) {}

  Status WriteAt(uint64_t offset,
                 std::span<const std::string_view> pieces) override {
    HF_RETURN_IF_ERROR(CheckLive());
    Status status = store_->Begin("write_at " + key_);
    if (status.ok()) {
      status = pieces_.Add(offset, pieces, store_->Describe(key_));
    }
    if (!status.ok()) dead_ = true;
    return status;
  }

  Status Finish(bool sync) override {
    HF_RETURN_IF_ERROR(CheckLive());
    dead_ = true;
    HF_ASSIGN_OR_RETURN(Bytes value, pieces_.Join(store_->Describe(key_)));
    Status status = store_->Begin("finish " + key_ + (sync ? " sync" : ""));
    if (!status.ok()) {
      store_->TearWrite(key_, value, true);
      return status;
    }
    std::lock_guard lock(store_->mutex_);
    store_->AddVersion(key_, {std::move(value), sync});
    return {};
  }

 private:
  Status CheckLive() const {
    if (!dead_ && crash_count_ == store_->crash_count_) return {};
    return FailedPreconditionError("write " + store_->Describe(key_) +
                                   ": the writer is finished or has failed");
  }

  FaultStore* const store_;
  const std::string key_;
  const uint64_t crash_count_;
  std::atomic<bool> dead_{false};
  PieceBuffer pieces_;
};

FaultStore::FaultStore(FaultOptions options, std::string name)
    : name_(std::move(name)), options_(options), random_(options.seed) {}

void FaultStore::SetFaults(FaultOptions options) {
  std::lock_guard lock(mutex_);
  options_ = options;
  random_.seed(options.seed);
  operations_.clear();
  read_count_ = 0;
}

uint64_t FaultStore::operation_count() const {
  std::lock_guard lock(mutex_);
  return operations_.size();
}

std::vector<std::string> FaultStore::operations() const {
  std::lock_guard lock(mutex_);
  return operations_;
}

Status FaultStore::Begin(std::string operation) {
  std::lock_guard lock(mutex_);
  operations_.push_back(std::move(operation));
  const uint64_t ordinal = operations_.size();
  const bool fails = options_.fail_at != 0 &&
                     (ordinal == options_.fail_at ||
                      (options_.sticky && ordinal > options_.fail_at));
  if (!fails) return {};
  return Status(options_.code, "injected failure of operation " +
                                   std::to_string(ordinal) + ": " +
                                   operations_.back() + " in " + name_);
}

std::string FaultStore::Describe(std::string_view key) const {
  return name_ + "/" + std::string(key);
}

const Bytes* FaultStore::FindLocked(std::string_view key) const {
  const auto it = objects_.find(key);
  if (it == objects_.end()) return nullptr;
  const std::optional<Bytes>& value = it->second.back().value;
  return value ? &*value : nullptr;
}

Result<Bytes> FaultStore::Find(std::string_view key) const {
  std::lock_guard lock(mutex_);
  if (const Bytes* value = FindLocked(key)) return *value;
  return NotFoundError("read " + Describe(key) + ": no such object");
}

Result<ObjectInfo> FaultStore::Stat(std::string_view key) {
  HF_RETURN_IF_ERROR(CheckKey(key));
  HF_RETURN_IF_ERROR(Begin("stat " + std::string(key)));
  HF_ASSIGN_OR_RETURN(Bytes value, Find(key));
  return ObjectInfo{value.size()};
}

Result<Bytes> FaultStore::Read(std::string_view key, ByteRange range) {
  HF_RETURN_IF_ERROR(CheckKey(key));
  HF_RETURN_IF_ERROR(Begin("read " + std::string(key)));
  HF_ASSIGN_OR_RETURN(Bytes value, Find(key));
  HF_ASSIGN_OR_RETURN(range, ResolveRange(range, value.size(), Describe(key)));
  return MaybeFlip(value.Slice(range.offset, range.byte_count));
}

Bytes FaultStore::MaybeFlip(Bytes value) {
  if (value.empty()) return value;
  std::lock_guard lock(mutex_);
  if (++read_count_ != options_.flip_read_at) return value;
  const uint64_t bit = random_() % (uint64_t{8} * value.size());
  std::string copy = value.ToString();
  copy[bit / 8] ^= static_cast<char>(1 << (bit % 8));
  return Bytes(std::move(copy));
}

Status FaultStore::ReadInto(std::string_view key, uint64_t offset,
                            std::span<char> target) {
  HF_ASSIGN_OR_RETURN(Bytes value, Read(key, {offset, target.size()}));
  if (!value.empty()) std::memcpy(target.data(), value.data(), value.size());
  return {};
}

Status FaultStore::List(
    std::string_view prefix,
    const std::function<Status(std::string_view, const ObjectInfo&)>& fn) {
  HF_RETURN_IF_ERROR(Begin("list " + std::string(prefix)));
  // Collects the keys first, so that fn may call this store.
  std::vector<std::pair<std::string, ObjectInfo>> found;
  {
    std::lock_guard lock(mutex_);
    for (auto it = objects_.lower_bound(prefix);
         it != objects_.end() && it->first.starts_with(prefix); ++it) {
      const std::optional<Bytes>& value = it->second.back().value;
      if (value) found.push_back({it->first, {value->size()}});
    }
  }
  for (const auto& [key, info] : found) HF_RETURN_IF_ERROR(fn(key, info));
  return {};
}

void FaultStore::AddVersion(std::string_view key, Version version) {
  const auto [it, is_new] = objects_.try_emplace(std::string(key));
  if (is_new) it->second.push_back({});  // durably: no object
  it->second.push_back(std::move(version));
}

bool FaultStore::Chance() { return random_() % 2 == 0; }

void FaultStore::TearWrite(std::string_view key, const Bytes& value,
                           bool atomic) {
  std::lock_guard lock(mutex_);
  if (!options_.torn_writes) return;
  // An atomic write cannot be torn: its rename happened or did not.
  if (atomic) {
    if (Chance()) AddVersion(key, {value, true});
    return;
  }
  // The failed write removed its file, but a crash may restore part of it.
  const size_t kept_bytes = random_() % (value.size() + 1);
  AddVersion(key, {value.Slice(0, kept_bytes), false});
  AddVersion(key, {std::nullopt, true});
}

Status FaultStore::Write(std::string_view key,
                         std::span<const std::string_view> pieces,
                         const WriteOptions& options) {
  HF_RETURN_IF_ERROR(CheckKey(key));
  HF_ASSIGN_OR_RETURN(Bytes value, JoinPieces(pieces, Describe(key)));
  Status status = Begin(WriteName(key, options));
  if (!status.ok()) {
    if (!options.must_create) TearWrite(key, value, options.atomic);
    return status;
  }
  std::lock_guard lock(mutex_);
  if (options.must_create && FindLocked(key) != nullptr) {
    return AlreadyExistsError("write " + Describe(key) + ": it exists");
  }
  AddVersion(key, {std::move(value), options.sync});
  if (!options.sync || !options.atomic) return {};
  // A synced atomic write is durable with its name: no older version can come
  // back after a crash.
  History& history = objects_.find(key)->second;
  history.erase(history.begin(), history.end() - 1);
  return {};
}

Result<std::unique_ptr<ObjectWriter>> FaultStore::Create(std::string_view key) {
  HF_RETURN_IF_ERROR(CheckKey(key));
  HF_RETURN_IF_ERROR(Begin("create " + std::string(key)));
  return std::unique_ptr<ObjectWriter>(
      std::make_unique<Writer>(this, std::string(key)));
}

Status FaultStore::Delete(std::string_view key) {
  HF_RETURN_IF_ERROR(CheckKey(key));
  Status status = Begin("delete " + std::string(key));
  std::lock_guard lock(mutex_);
  // A delete that failed may still have happened.
  if (!status.ok() && !(options_.torn_writes && Chance())) return status;
  if (FindLocked(key) != nullptr) AddVersion(key, {std::nullopt, true});
  return status;
}

Status FaultStore::SyncNames() {
  Status status = Begin("sync_names");
  if (!status.ok()) return status;
  std::lock_guard lock(mutex_);
  for (auto it = objects_.begin(); it != objects_.end();) {
    History& history = it->second;
    history.erase(history.begin(), history.end() - 1);
    it = history.back().value ? std::next(it) : objects_.erase(it);
  }
  return {};
}

Bytes FaultStore::Damage(const Bytes& value, Random& random) {
  if (value.empty()) return value;
  switch (random() % 4) {
    case 0:
      return Bytes();
    case 1:  // truncated
      return value.Slice(0, random() % value.size());
    case 2: {  // the full size, with the last sectors lost
      std::string copy = value.ToString();
      const size_t sector_count = value.size() / kSectorBytes + 1;
      const size_t kept_bytes = random() % sector_count * kSectorBytes;
      std::fill(copy.begin() + static_cast<std::ptrdiff_t>(kept_bytes),
                copy.end(), '\0');
      return Bytes(std::move(copy));
    }
    default:
      return value;
  }
}

std::optional<Bytes> FaultStore::Survivor(const History& history,
                                          Random& random, CrashLoss loss) {
  if (loss == CrashLoss::kNothing) return history.back().value;
  const bool by_seed = loss == CrashLoss::kBySeed;
  const Version& version =
      history[by_seed ? random() % history.size() : size_t{0}];
  if (!version.value || version.is_synced) return version.value;
  return by_seed ? Damage(*version.value, random) : Bytes();
}

std::map<std::string, Bytes> FaultStore::Survivors(uint64_t seed,
                                                   CrashLoss loss) const {
  Random random(seed);
  std::map<std::string, Bytes> survivors;
  for (const auto& [key, history] : objects_) {
    std::optional<Bytes> value = Survivor(history, random, loss);
    if (value) survivors.emplace(key, *std::move(value));
  }
  return survivors;
}

void FaultStore::Crash(uint64_t seed, CrashLoss loss) {
  std::lock_guard lock(mutex_);
  const std::map<std::string, Bytes> survivors = Survivors(seed, loss);
  objects_.clear();
  for (const auto& [key, value] : survivors) {
    objects_[key].push_back({value, true});
  }
  options_ = {};
  ++crash_count_;
}

std::unique_ptr<MemoryStore> FaultStore::AfterCrash(uint64_t seed,
                                                    CrashLoss loss) const {
  std::lock_guard lock(mutex_);
  auto store = std::make_unique<MemoryStore>(name_);
  for (auto& [key, value] : Survivors(seed, loss)) store->Put(key, value);
  return store;
}

}  // namespace holdfast
