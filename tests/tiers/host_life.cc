#include "tiers/host_life.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <random>

#include "crash/libc_calls.h"
#include "ground/base/status_macros.h"
#include "holdfast/checkpoint.h"

namespace holdfast {
namespace {

std::string PathOfDescriptor(int fd) {
  char path[4096];
  const std::string link = "/proc/self/fd/" + std::to_string(fd);
  const ssize_t size = ::readlink(link.c_str(), path, sizeof path);
  return size < 0 ? "" : std::string(path, size);
}

std::string PathOf(const FileCall& call) {
  if (call.path == nullptr) return PathOfDescriptor(call.fd);
  const bool is_relative = call.path[0] != '/';
  return (is_relative ? PathOfDescriptor(call.directory) + "/" : "") +
         call.path + (call.to == nullptr ? "" : std::string(" ") + call.to);
}

Place PlaceOf(const std::string& path) {
  const auto has = [&](std::string_view part) {
    return path.find(part) != std::string::npos;
  };
  if (has("/shared/")) return Place::kShared;
  if (has(".removing")) return Place::kRemove;
  if (has("/parity") || has("sums")) return Place::kParity;
  return has("protected") ? Place::kProtect : Place::kData;
}

// Counts the changes, and carries out the fate at the chosen change.
class FateHook final : public CallHook {
 public:
  FateHook(const Life::Fate& fate, HostReport& report)
      : fate_(fate), report_(report) {}

  long Run(const FileCall& call, const std::function<long()>& make) override {
    if (!IsChange(call.kind)) return make();
    const std::string path = PathOf(call);
    // Other files are sockets, or descriptors that wake threads.
    if (path.find("/host") == std::string::npos &&
        path.find("/shared") == std::string::npos) {
      return make();
    }
    ++report_.change_count;
    if (fate_.doom == Doom::kNone || is_over_) return make();
    const Place place = PlaceOf(path);
    if (fate_.place != Place::kAny && fate_.place != place) return make();
    const long number = ++fitting_count_;
    if (number < fate_.at_change) return make();
    const bool is_write = call.kind == FileCallKind::kWrite;
    if (fate_.doom == Doom::kNoSpace) {
      if (!is_write && call.kind != FileCallKind::kCreate) return make();
      errno = ENOSPC;
      return -1;
    }
    if (number > fate_.at_change) return make();
    report_.place = place;
    if (fate_.doom == Doom::kTear && is_write) {
      WriteFirstBytes(call, TotalBytes(call.pieces) / 2);
    }
    ::kill(::getpid(), fate_.doom == Doom::kStop ? SIGSTOP : SIGKILL);
    return make();
  }

  void End() { is_over_ = true; }

 private:
  const Life::Fate fate_;
  HostReport& report_;
  std::atomic<long> fitting_count_{0};
  std::atomic<bool> is_over_{false};
};

Result<Moment> ReadMoment(const Checkpoint& checkpoint) {
  Moment moment;
  const std::pair<const char*, int64_t*> numbers[] = {{"life", &moment.life},
                                                      {"step", &moment.step}};
  for (const auto& [name, number] : numbers) {
    HF_ASSIGN_OR_RETURN(const Array array, checkpoint.Read(name));
    if (array.byte_count() != sizeof *number) {
      return InternalError(std::string(name) + " is no int64");
    }
    std::memcpy(number, array.view().data, sizeof *number);
  }
  return moment;
}

// Compares every restored element, and returns the moment of the state.
Result<Moment> CheckState(const TierRestore& restore, HostReport& report) {
  HF_ASSIGN_OR_RETURN(const Moment moment, ReadMoment(*restore.checkpoint));
  const Tree wanted = StateAt(moment);
  for (const auto& name : {"a", "b", "c"}) {
    HF_ASSIGN_OR_RETURN(const Array read, restore.checkpoint->Read(name));
    const Array& array = wanted.Find(name)->array();
    if (read.byte_count() != array.byte_count() ||
        std::memcmp(read.view().data, array.view().data, read.byte_count()) !=
            0) {
      report.is_wrong = true;
    }
  }
  if (moment.step != restore.step) report.is_wrong = true;
  return moment;
}

TieredManagerOptions OptionsOf(const Life& life, int64_t rank) {
  TieredManagerOptions options;
  options.local.directory = HostPath(life, rank);
  if (life.shared_every > 0) {
    options.shared.directory = life.root + "/shared";
    options.shared.save_every = life.shared_every;
    options.shared.max_to_keep = 2;
  }
  options.parity.data_shards = life.data_shards;
  options.parity.parity_shards = 2;
  options.parity.block_bytes = 512;
  options.parity.failure_domain = "host" + std::to_string(life.hosts[rank]);
  options.save.chunk_bytes = 1024;
  options.save.run.threads = 1;
  options.host = options.listen_address = "127.0.0.1";
  options.timeout_seconds = 3 * life.answer_seconds_max;
  options.answer_seconds_max = life.answer_seconds_max;
  options.peer_threads = 1;
  return options;
}

Status RestoreAtFirst(TieredManager& manager, HostReport& report) {
  Moment moment;
  const Result<TierRestore> restore =
      manager.Restore([&](const TierRestore& opened) -> Status {
        HF_ASSIGN_OR_RETURN(moment, CheckState(opened, report));
        return Status();
      });
  // If no state can be restored, the job starts over.
  const StatusCode code = restore.status().code();
  if (!restore.ok() && code != StatusCode::kNotFound &&
      code != StatusCode::kDataLoss) {
    return restore.status();
  }
  if (!restore.ok()) moment = Moment();
  report.was_shared = restore.ok() && restore->source == "shared";
  report.restored_life = moment.life;
  report.restored_step = moment.step;
  report.has_restored = true;
  return Status();
}

// Saves the steps of a life. If a disk is full, all ranks get the error, and
// save again when there is space.
Status SaveSteps(TieredManager& manager, const Life& life, FateHook& hook,
                 HostReport& report) {
  int64_t step = std::max<int64_t>(report.restored_step, 0);
  for (int64_t i = 0; i < life.save_count; ++i) {
    ++step;
    Status saved = manager.Save(step, StateAt({life.number, step})).status();
    if (saved.ok()) saved = manager.WaitProtected();
    if (saved.ok()) report.protected_step = step;
    saved = manager.Agree(saved);
    if (!saved.ok() && life.Has(Doom::kNoSpace)) {
      hook.End();
      std::strncpy(report.error, saved.message().data(),
                   std::min(saved.message().size(), sizeof report.error - 1));
      continue;
    }
    HF_RETURN_IF_ERROR(saved);
  }
  const Status waited = manager.Wait();
  if (!waited.ok() && life.Has(Doom::kNoSpace)) return Status();
  HF_RETURN_IF_ERROR(waited);
  if (life.shared_every == 0 || life.Has(Doom::kNoSpace)) return Status();
  const int64_t drained_step = step / life.shared_every * life.shared_every;
  if (drained_step > std::max<int64_t>(report.restored_step, 0)) {
    report.drained_step = drained_step;
  }
  return Status();
}

}  // namespace

Tree StateAt(const Moment& moment) {
  std::mt19937 random(static_cast<uint32_t>(moment.life * 1009 + moment.step));
  const auto array = [&](Shape shape) {
    std::vector<uint32_t> values(ElementCount(shape));
    for (uint32_t& value : values) value = static_cast<uint32_t>(random());
    return *Array::Of(values, shape);
  };
  return Tree::Dict({{"a", array({64, 48})},
                     {"b", array({48})},
                     {"c", array({64, 7})},
                     {"life", moment.life},
                     {"step", moment.step}});
}

std::string HostPath(const Life& life, int64_t rank) {
  return life.root + "/host" + std::to_string(life.hosts[rank]);
}

Status LiveAsHost(const Life& life, int64_t rank, ProcessGroup& group,
                  HostReport& report) {
  FateHook hook(life.fates[rank], report);
  const ScopedCallHook scoped(&hook);
  HF_ASSIGN_OR_RETURN(const std::unique_ptr<TieredManager> manager,
                      TieredManager::Make(OptionsOf(life, rank), &group));
  report.stage = Stage::kRestore;
  HF_RETURN_IF_ERROR(RestoreAtFirst(*manager, report));
  report.stage = Stage::kSave;
  HF_RETURN_IF_ERROR(SaveSteps(*manager, life, hook, report));
  hook.End();
  HF_RETURN_IF_ERROR(manager->Close());
  report.stage = Stage::kEnd;
  return Status();
}

}  // namespace holdfast
