#include "engine/device/device_loader.h"

#include <algorithm>
#include <atomic>
#include <limits>
#include <set>
#include <string>
#include <thread>
#include <utility>

#include "engine/device/device_checks.h"
#include "engine/device/load_fingerprints.h"
#include "engine/device/load_plan.h"
#include "engine/device/load_progress.h"
#include "engine/device/load_targets.h"
#include "engine/device/window_decoder.h"
#include "ground/base/byte_budget.h"
#include "ground/base/executor.h"
#include "ground/base/no_throw.h"
#include "ground/base/start_threads.h"
#include "ground/base/status_macros.h"
#include "ground/device/cuda_driver.h"
#include "ground/device/device_rows.h"
#include "ground/record/call_record.h"
#include "ground/run/run.h"
#include "ground/tensor/copy.h"
#include "stores/place/place.h"

namespace holdfast {
namespace {

using Target = LoadTargets::Target;

// Returns how many threads a load has in all.
int ThreadCountOf(const RunOptions& run, const Checkpoint& checkpoint) {
  const int thread_count = Executor(run.threads).thread_count();
  const bool waits =
      run.threads == 0 && Place(checkpoint.info().path).is_remote();
  return waits ? std::max(thread_count, kWaitingThreadsMax) : thread_count;
}

}  // namespace

// One call.
class DeviceLoad {
 public:
  DeviceLoad(DeviceLoader& loader, const Checkpoint& checkpoint,
             const RunOptions& run)
      : loader_(loader),
        checkpoint_(checkpoint),
        run_(run),
        cancel_(run.cancel),
        targets_(loader.driver_),
        fingerprints_(checkpoint.leaves()),
        checks_(targets_, checkpoint.leaves()),
        large_bytes_(run.memory_bytes) {}

  Result<Stats> Run(const std::vector<DeviceReadRequest>& requests) {
    Stopwatch watch, total;
    HF_RETURN_IF_ERROR(targets_.Add(checkpoint_, requests));
    if (!targets_.parts().empty()) {
      HF_RETURN_IF_ERROR(loader_.driver_.CheckProcess());
      Plan();
    }
    LoadProgress progress(run_, TotalBytes());
    const double plan_seconds = watch.Lap();
    RunLanes(progress);
    HF_RETURN_IF_ERROR(failure_);
    HF_RETURN_IF_ERROR(CheckFingerprints());
    stats_.plan_seconds = plan_seconds;
    stats_.transfer_seconds = watch.Lap();
    stats_.total_seconds = total.Lap();
    return stats_;
  }

 private:
  uint64_t BytesOf(const WantedPart& part) const {
    return ElementBytes(part.box, part.dtype);
  }
  const LeafInfo& LeafOf(const LoadPiece& piece) const {
    return checkpoint_.leaves()[targets_.parts()[piece.part].leaf];
  }
  // Returns the box of a piece in its part, whose elements the targets have.
  Box BoxInTarget(const LoadPiece& piece) const {
    return Relative(piece.box, targets_.parts()[piece.part].box.origin);
  }
  // Returns the decoded bytes of a piece in the stored dtype.
  uint64_t StoredBytesOf(const LoadPiece& piece) const {
    return ElementBytes(piece.box, *LeafOf(piece).dtype);
  }
  uint64_t TotalBytes() const {
    uint64_t byte_count = 0;
    for (const LoadWindow& window : windows_) {
      for (const LoadPiece& piece : window.pieces) {
        byte_count += StoredBytesOf(piece);
      }
    }
    return byte_count;
  }

  // Chooses the size of the windows: large ones keep all threads busy, small
  // ones cost less to make.
  void Plan() {
    const int thread_count = ThreadCountOf(run_, checkpoint_);
    lane_count_ = std::min(loader_.options_.lane_count_max, thread_count);
    uint64_t byte_count_max = loader_.options_.pinned_bytes_max;
    if (run_.memory_bytes != 0) {
      byte_count_max = std::min(byte_count_max, run_.memory_bytes);
    }
    uint64_t wanted_bytes = 0;
    for (const WantedPart& part : targets_.parts()) {
      wanted_bytes += BytesOf(part);
    }
    const std::vector<uint64_t>& sizes = loader_.options_.window_bytes;
    // The lanes share the memory; if there is not enough for all, there are
    // fewer.
    lane_count_ = static_cast<int>(std::clamp<uint64_t>(
        byte_count_max / sizes.front(), 1, static_cast<uint64_t>(lane_count_)));
    const uint64_t lanes = static_cast<uint64_t>(lane_count_);
    for (size_t i = 0; i < sizes.size(); ++i) {
      const bool is_last =
          i + 1 == sizes.size() || sizes[i + 1] > byte_count_max / lanes;
      if (!is_last && wanted_bytes > sizes[i] * lanes) continue;
      window_bytes_ = sizes[i];
      windows_ =
          PlanLoad(checkpoint_.leaves(), targets_.parts(), window_bytes_);
      const bool fits =
          std::ranges::all_of(windows_, [&](const LoadWindow& window) {
            return window.byte_count <= window_bytes_;
          });
      if (fits || is_last) break;
    }
    lane_count_ = static_cast<int>(std::min(lanes, windows_.size()));
    lane_run_.threads = (thread_count + lane_count_ - 1) / lane_count_;
    lane_run_.cancel = run_.cancel;
    if (run_.memory_bytes != 0) {
      lane_run_.memory_bytes = std::max<uint64_t>(
          1, run_.memory_bytes / static_cast<uint64_t>(lane_count_));
    } else {
      lane_run_.memory_bytes = 0;
    }
    const Target& first = targets_.of_part(0).front();
    ring_ = &loader_.RingOf(window_bytes_, first.device);
    checks_.Plan(loader_.kernels_, *ring_);
    encoded_reads_ = dynamic_cast<const EncodedReads*>(&checkpoint_);
    if (encoded_reads_ != nullptr) {
      decoding_.Plan(targets_, checkpoint_.leaves(), checks_.complete_leaves(),
                     loader_.options_.decode_bytes_min, loader_.kernels_);
    }
    fingerprints_.Plan(targets_.parts(), windows_, checks_.complete_leaves(),
                       DecodedLeaves());
  }

  // Returns the leaves that devices decode: not those in windows that are too
  // large for a slot.
  std::set<size_t> DecodedLeaves() const {
    std::set<size_t> leaves = decoding_.leaves();
    for (const LoadWindow& window : windows_) {
      if (window.byte_count <= window_bytes_) continue;
      for (const LoadPiece& piece : window.pieces) {
        leaves.erase(targets_.parts()[piece.part].leaf);
      }
    }
    return leaves;
  }

  // Ends the checks of elements that were copied. Arrays that both the host and
  // a device have checked count once.
  Status CheckFingerprints() {
    HF_ASSIGN_OR_RETURN(const uint64_t host_count, fingerprints_.Check());
    HF_RETURN_IF_ERROR(checks_.Run(*ring_, cancel_));
    stats_.fingerprint_count += host_count;
    for (const size_t leaf : checks_.leaves()) {
      if (!fingerprints_.Checks(leaf)) ++stats_.fingerprint_count;
    }
    return Status();
  }

  void RunLanes(LoadProgress& progress) {
    if (windows_.empty()) return;
    CallRecord* const call = CallRecord::OfThread();
    std::vector<std::jthread> threads;
    StartThreads(static_cast<size_t>(lane_count_ - 1), threads, [&, call] {
      const OnCall on(call);
      RunLane(progress);
    });
    RunLane(progress);
  }

  void RunLane(LoadProgress& progress) {
    WindowDecoder decoder(loader_.driver_, targets_,
                          loader_.options_.decode_chunk_bytes_min, decoding_);
    while (!has_failed_.load(std::memory_order_relaxed)) {
      const size_t number = next_window_.fetch_add(1);
      if (number >= windows_.size()) return;
      const Status done = CatchBadAlloc(
          [&] { return RunWindow(windows_[number], decoder, progress); });
      if (!done.ok()) Fail(number, done);
    }
  }

  // The failure of the first window wins.
  void Fail(size_t number, const Status& status) {
    const std::lock_guard lock(mutex_);
    has_failed_.store(true, std::memory_order_relaxed);
    if (!failure_.ok() && number >= failed_window_) return;
    failed_window_ = number;
    failure_ = status;
  }

  Status RunWindow(const LoadWindow& window, WindowDecoder& decoder,
                   LoadProgress& progress) {
    if (window.byte_count > window_bytes_) return RunLarge(window, progress);
    HF_ASSIGN_OR_RETURN(PinnedRing::Slot slot, TakeSlot(window));
    decoder.Begin(window, slot.data());
    HF_RETURN_IF_ERROR(ReadWindow(window, slot.data(), &decoder, progress));
    HF_RETURN_IF_ERROR(AwaitProgram(window));
    if (decoder.taken_bytes() > 0) {
      HF_ASSIGN_OR_RETURN(const bool is_done,
                          RunDecoder(window, decoder, slot));
      if (is_done) return Status();
      HF_RETURN_IF_ERROR(ReadAgain(window, slot.data()));
    }
    Status queued;
    for (const LoadPiece& piece : window.pieces) {
      queued = QueueCopies(piece, BoxInTarget(piece),
                           slot.data() + piece.offset, slot);
      if (!queued.ok()) break;
    }
    return Finish(window, queued, slot);
  }

  // Copies and decodes a window. Returns false if not all could be decoded.
  Result<bool> RunDecoder(const LoadWindow& window, WindowDecoder& decoder,
                          PinnedRing::Slot& slot) {
    if (!decoder.Reserve()) return false;
    const auto queue = [&] {
      const Status decoding = decoder.QueueDecoding(slot);
      if (!decoding.ok()) return decoding.WithContext(Names(window));
      // The elements overwrite what is copied of encoded chunks.
      for (size_t i = 0; i < window.pieces.size(); ++i) {
        if (decoder.HasAllOf(i)) continue;
        const LoadPiece& piece = window.pieces[i];
        HF_RETURN_IF_ERROR(CopyToFirst(piece, BoxInTarget(piece),
                                       slot.data() + piece.offset, slot));
      }
      const Status moving = decoder.QueueElements(slot);
      if (!moving.ok()) return moving.WithContext(Names(window));
      for (const LoadPiece& piece : window.pieces) {
        HF_RETURN_IF_ERROR(CopyToOthers(piece, BoxInTarget(piece), slot));
      }
      return Status();
    };
    const Status done = Finish(window, queue(), slot);
    if (done.code() == StatusCode::kResourceExhausted) {
      decoding_.EndRoom();
      return false;
    }
    HF_RETURN_IF_ERROR(done);
    if (!decoder.AreDecoded()) return false;
    const std::lock_guard lock(mutex_);
    stats_.device_decoded_bytes += decoder.taken_bytes();
    return true;
  }

  // Reads a chunk that is larger than a slot into ordinary memory, and copies
  // it through a slot piece by piece.
  Status RunLarge(const LoadWindow& window, LoadProgress& progress) {
    const ByteBudget::Lease lease = large_bytes_.Acquire(window.byte_count);
    Buffer memory = Buffer::TryAllocate(window.byte_count);
    if (memory.data() == nullptr) {
      return ResourceExhaustedError(
          "leaf " + LeafOf(window.pieces.front()).name + ": no memory for " +
          std::to_string(window.byte_count) + " bytes of one chunk");
    }
    HF_RETURN_IF_ERROR(ReadWindow(window, memory.data(), nullptr, progress));
    HF_RETURN_IF_ERROR(AwaitProgram(window));
    HF_ASSIGN_OR_RETURN(PinnedRing::Slot slot, TakeSlot(window));
    for (const LoadPiece& piece : window.pieces) {
      const Box whole = BoxInTarget(piece);
      const ConstArrayView& view = FirstTarget(piece).view;
      const ArrayView read =
          RowsOf(view, whole, memory.data() + piece.offset).view;
      for (const Box& box : CutBox(view, whole, window_bytes_)) {
        CopyStrided(Subview(read, Relative(box, whole.origin)),
                    RowsOf(view, box, slot.data()).view);
        const Status queued = QueueCopies(piece, box, slot.data(), slot);
        HF_RETURN_IF_ERROR(Finish(window, queued, slot));
      }
    }
    return Status();
  }

  Result<PinnedRing::Slot> TakeSlot(const LoadWindow& window) {
    Result<PinnedRing::Slot> slot = ring_->Take();
    if (slot.ok()) return slot;
    return slot.status().WithContext(Names(window));
  }

  const Target& FirstTarget(const LoadPiece& piece) const {
    return targets_.of_part(piece.part).front();
  }

  // Returns the requests that read a window to `memory`, in which the elements
  // are in the order of their first targets.
  std::vector<ReadRequest> RequestsOf(const LoadWindow& window,
                                      char* memory) const {
    std::vector<ReadRequest> requests;
    for (const LoadPiece& piece : window.pieces) {
      BoxRows rows = RowsOf(FirstTarget(piece).view, BoxInTarget(piece),
                            memory + piece.offset);
      requests.push_back({targets_.parts()[piece.part].leaf, piece.box.origin,
                          std::move(rows.view)});
    }
    return requests;
  }

  // Reads the window's elements. A decoder may take chunks of them.
  Status ReadWindow(const LoadWindow& window, char* memory,
                    WindowDecoder* decoder, LoadProgress& progress) {
    const std::vector<ReadRequest> requests = RequestsOf(window, memory);
    uint64_t byte_count = 0;
    for (const LoadPiece& piece : window.pieces) {
      byte_count += StoredBytesOf(piece);
    }
    RunOptions run = lane_run_;
    LoadProgress::Part part(progress, byte_count);
    if (run_.progress) run.progress = part.Callback();
    HF_ASSIGN_OR_RETURN(const Stats stats, Read(requests, decoder, run));
    HF_RETURN_IF_ERROR(fingerprints_.Add(requests, lane_run_.threads, cancel_));
    part.Finish();
    AddStats(stats, window.byte_count);
    return Status();
  }

  Result<Stats> Read(const std::vector<ReadRequest>& requests,
                     WindowDecoder* decoder, const RunOptions& run) const {
    if (decoder != nullptr && decoding_.is_on()) {
      return encoded_reads_->ReadEncoded(requests, run, *decoder);
    }
    return checkpoint_.ReadInto(requests, run);
  }

  // Reads a window that a device could not decode. Its elements count once.
  Status ReadAgain(const LoadWindow& window, char* memory) {
    HF_ASSIGN_OR_RETURN(
        const Stats stats,
        checkpoint_.ReadInto(RequestsOf(window, memory), lane_run_));
    const std::lock_guard lock(mutex_);
    stats_.stored_bytes += stats.stored_bytes;
    return Status();
  }

  void AddStats(Stats one, uint64_t window_bytes) {
    one.memory_bytes_peak += window_bytes;
    one.memory_bytes_peak *= static_cast<uint64_t>(lane_count_);
    const std::lock_guard lock(mutex_);
    stats_.Add(one);
  }

  // Waits for the program's work on all targets of the window. No copy is
  // queued while it goes on.
  Status AwaitProgram(const LoadWindow& window) {
    for (const LoadPiece& piece : window.pieces) {
      for (const Target& target : targets_.of_part(piece.part)) {
        const Status waited = targets_.WaitFor(target, *ring_, cancel_);
        if (!waited.ok()) return waited.WithContext(Name(piece, target));
      }
    }
    return Status();
  }

  // Queues the copies of a box of the part, whose elements are at `memory` in
  // the slot, to the first target, and from there to the others.
  Status QueueCopies(const LoadPiece& piece, const Box& box, char* memory,
                     PinnedRing::Slot& slot) {
    HF_RETURN_IF_ERROR(CopyToFirst(piece, box, memory, slot));
    return CopyToOthers(piece, box, slot);
  }

  Status CopyToFirst(const LoadPiece& piece, const Box& box, char* memory,
                     PinnedRing::Slot& slot) {
    const Target& first = FirstTarget(piece);
    for (const RowCopy& copy : RowsOf(first.view, box, memory).copies) {
      const Status queued = slot.CopyToDevice(first.device, copy, first.owner);
      if (!queued.ok()) return queued.WithContext(Name(piece, first));
    }
    return Status();
  }

  Status CopyToOthers(const LoadPiece& piece, const Box& box,
                      PinnedRing::Slot& slot) {
    const Target& first = FirstTarget(piece);
    for (const Target& other : targets_.of_part(piece.part)) {
      if (&other == &first) continue;
      const ConstArrayView from = Subview(first.view, box);
      for (const DeviceRowCopy& copy :
           RowsBetween(from, Subview(other.view, box))) {
        const Status queued =
            slot.CopyOnDevices(first.device, copy, other.owner);
        if (!queued.ok()) return queued.WithContext(Name(piece, other));
      }
    }
    return Status();
  }

  // Waits for what was queued, even if not all was.
  Status Finish(const LoadWindow& window, const Status& queued,
                PinnedRing::Slot& slot) {
    const Status waited = slot.Wait();
    HF_RETURN_IF_ERROR(queued);
    return waited.ok() ? waited : waited.WithContext(Names(window));
  }

  std::string Name(const LoadPiece& piece, const Target& target) const {
    return "leaf " + LeafOf(piece).name + ": device " +
           std::to_string(target.device);
  }

  // Names the leaves and the devices of a window.
  std::string Names(const LoadWindow& window) const {
    std::set<int> devices;
    for (const LoadPiece& piece : window.pieces) {
      for (const Target& target : targets_.of_part(piece.part)) {
        devices.insert(target.device);
      }
    }
    std::string names =
        NameLeaves(LeafOf(window.pieces.front()), LeafOf(window.pieces.back()));
    for (const int device : devices) {
      names += device == *devices.begin() ? ": device " : ", ";
      names += std::to_string(device);
    }
    return names;
  }

  DeviceLoader& loader_;
  const Checkpoint& checkpoint_;
  const RunOptions& run_;
  const CancelToken cancel_;
  LoadTargets targets_;
  LoadFingerprints fingerprints_;
  DeviceChecks checks_;
  LoadDecoding decoding_;
  const EncodedReads* encoded_reads_ = nullptr;
  ByteBudget large_bytes_;  // of chunks in ordinary memory

  // The plan.
  std::vector<LoadWindow> windows_;
  uint64_t window_bytes_ = 0;
  int lane_count_ = 1;
  RunOptions lane_run_;
  PinnedRing* ring_ = nullptr;

  std::atomic<size_t> next_window_{0};
  std::atomic<bool> has_failed_{false};
  std::mutex mutex_;
  Status failure_;
  size_t failed_window_ = 0;
  Stats stats_;
};

DeviceLoader::DeviceLoader(DeviceDriver& driver, DeviceLoaderOptions options,
                           std::shared_ptr<PinnedBudget> budget)
    : driver_(driver),
      options_(std::move(options)),
      budget_(budget != nullptr
                  ? std::move(budget)
                  : std::make_shared<PinnedBudget>(options_.pinned_bytes_max)),
      kernels_(driver, options_.compile_kernels) {}

PinnedRing& DeviceLoader::RingOf(uint64_t slot_bytes, int device) {
  const std::lock_guard lock(mutex_);
  std::unique_ptr<PinnedRing>& ring = rings_[slot_bytes];
  if (ring == nullptr) {
    ring = std::make_unique<PinnedRing>(
        driver_, device,
        PinnedRingOptions{.slot_bytes = slot_bytes,
                          .wait_seconds_max = options_.wait_seconds_max},
        budget_);
  }
  return *ring;
}

Result<Stats> DeviceLoader::Read(const Checkpoint& checkpoint,
                                 const std::vector<DeviceReadRequest>& requests,
                                 const RunOptions& run) {
  return InCall(CallKind::kLoad, checkpoint.info().path, [&] {
    return CatchBadAlloc([&]() -> Result<Stats> {
      DeviceLoad load(*this, checkpoint, run);
      return load.Run(requests);
    });
  });
}

Result<Stats> ReadIntoDevices(const Checkpoint& checkpoint,
                              const std::vector<DeviceReadRequest>& requests,
                              const RunOptions& run) {
  HF_ASSIGN_OR_RETURN(DeviceDriver* const driver, CudaDriver());
  // Never destroyed: a slot may be in use when main returns.
  static auto& loader = *new DeviceLoader(*driver, DeviceLoaderOptions(),
                                          PinnedBudget::OfProcess());
  return loader.Read(checkpoint, requests, run);
}

}  // namespace holdfast
