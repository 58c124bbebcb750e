// DeviceTwin: a DeviceDriver whose devices are host memory with addresses of
// its own, for tests.
//
// Work that is queued on a stream is only done when somebody polls an event, a
// few operations at a time, so that a reader that does not wait sees old bytes.
// A copy whose device side is not in one allocation, or whose host side is not
// in pinned memory that is still allocated, is not made; it is a violation,
// which the test's end must find empty.
//
// Thread-safety: any thread. Ownership: owns all memory; must outlive what uses
// it. Units: bytes. Errors: as DeviceDriver, and those that a test orders.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ground/device/device_driver.h"

namespace holdfast {

class DeviceTwin : public DeviceDriver {
 public:
  struct Options {
    int device_count = 1;
    uint64_t pinned_bytes_max = uint64_t{1} << 32;
    // Operations of each stream that one poll runs.
    int operations_per_poll = 1;
    bool allows_pageable = false;  // host sides that are not pinned
  };

  DeviceTwin() : DeviceTwin(Options()) {}
  explicit DeviceTwin(const Options& options) : options_(options) {}

  // For tests: memory of a device, filled at once.
  DeviceAddress Allocate(int device, std::string_view bytes);
  void Free(DeviceAddress address);
  // Queues work of the program on a stream of its own (0: the default stream);
  // `work` returns false for work that has not ended yet, which then runs again
  // at the next poll.
  void Queue(int device, DeviceStream stream, std::function<bool()> work);
  // Writes to a device's memory. REQUIRES: inside one allocation.
  void Write(DeviceAddress address, std::string_view bytes);

  // Lets the `call`-th call from now (1: the next) fail.
  void FailCall(int call, Status status);
  // Lets the `copy`-th copy from now write half of its bytes, and end its
  // stream with an error.
  void CutCopy(int copy);
  // Lets no copy end while it is true.
  void Stall(bool is_stalled) { is_stalled_ = is_stalled; }
  // Lets each call from now on fail, as after a hardware error.
  void Lose() { is_lost_ = true; }

  std::vector<std::string> violations() const;
  uint64_t pinned_bytes() const;  // allocated now
  uint64_t pinned_bytes_peak() const;
  int call_count() const;
  // Streams and events that were not destroyed.
  size_t handle_count() const;

  std::string_view name() const override { return "twin"; }
  Status CheckProcess() const override { return Status(); }
  Result<AddressInfo> Describe(DeviceAddress address) override;
  Result<char*> AllocatePinned(int device, uint64_t byte_count) override;
  void FreePinned(int device, char* memory) override;
  Result<DeviceStream> CreateStream(int device) override;
  void DestroyStream(int device, DeviceStream stream) override;
  Result<DeviceEvent> CreateEvent(int device) override;
  void DestroyEvent(int device, DeviceEvent event) override;
  Status Record(int device, DeviceEvent event, DeviceStream stream) override;
  Result<bool> HasPassed(int device, DeviceEvent event) override;
  Status CopyToHost(int device, const RowCopy& copy,
                    DeviceStream stream) override;

 private:
  struct Allocation {
    int device = 0;
    std::string bytes;
  };
  struct Stream {
    std::deque<std::function<bool()>> work;
    Status failure;
  };
  struct Event {
    uint64_t recorded_count = 0;
    uint64_t passed_count = 0;
    Status failure;
  };

  // The functions below are called with the mutex held.
  Status Begin();
  Status CheckDevice(int device) const;
  Stream& StreamOf(int device, DeviceStream stream);
  void Poll();
  bool RunCopy(Stream& stream, const RowCopy& copy, bool is_cut);
  // Returns the device's bytes, or null and a violation.
  char* Find(DeviceAddress address, uint64_t byte_count);
  bool IsPinned(const char* memory, uint64_t byte_count) const;

  const Options options_;
  mutable std::mutex mutex_;
  std::map<DeviceAddress, Allocation> allocations_;
  std::map<const char*, std::unique_ptr<std::string>> pinned_;
  std::map<std::pair<int, DeviceStream>, Stream> streams_;
  std::map<DeviceEvent, Event> events_;
  std::vector<std::string> violations_;
  DeviceAddress next_address_ = uint64_t{1} << 44;
  uint64_t next_handle_ = 1;
  uint64_t pinned_bytes_ = 0;
  uint64_t pinned_bytes_peak_ = 0;
  int call_count_ = 0;
  int failing_call_ = 0;
  Status failure_;
  int copies_until_cut_ = 0;
  std::atomic<bool> is_lost_{false};
  std::atomic<bool> is_stalled_{false};
};

}  // namespace holdfast
