// DeviceTwin: a DeviceDriver whose devices are host memory with addresses of
// its own, for tests.
//
// Work that is queued on a stream is only done when somebody polls an event, a
// few operations at a time, so that a reader that does not wait sees old bytes.
// A row of a copy whose device side is not in one allocation, or whose host
// side is not in pinned memory that is still allocated, is not copied; it is a
// violation, which the test's end must find empty. Kernels are functions that a
// test registers by name.
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
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ground/device/device_driver.h"
#include "twins/quiet_mutex.h"

namespace holdfast {

class DeviceTwin : public DeviceDriver {
 public:
  struct Options {
    int device_count = 1;
    uint64_t pinned_bytes_max = uint64_t{1} << 32;
    // Operations of each stream that one poll runs.
    int operations_per_poll = 1;
    bool allows_pageable = false;  // host sides that are not pinned
    uint64_t device_bytes_max = uint64_t{1} << 34;  // of each device
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
  // Writes to a device's memory. REQUIRES: inside one allocation; called by
  // queued work.
  void Write(DeviceAddress address, std::string_view bytes);
  // Returns bytes of a device's memory as they are now.
  std::string Read(DeviceAddress address, uint64_t byte_count);
  // Runs all queued work that can run.
  void RunAll();

  // A kernel's host form: `arguments` are the launch's, with addresses made
  // into pointers to the allocations' bytes.
  using HostKernel = std::function<void(const KernelGrid& grid,
                                        std::span<const uint64_t> arguments)>;
  // Lets LoadKernel find `name` in any image.
  void AddKernel(std::string name, HostKernel kernel);

  // Lets the `call`-th call from now (1: the next) fail.
  void FailCall(int call, Status status);
  // Lets the `copy`-th copy from now write half of its bytes, and end its
  // stream with an error.
  void CutCopy(int copy);
  // Lets no copy end while it is true.
  void Stall(bool is_stalled) { is_stalled_ = is_stalled; }
  // Lets each call from now on fail, as after a hardware error.
  void Lose() { is_lost_ = true; }
  // The same from the `call`-th call on.
  void LoseAt(int call);
  // Ends all faults that were ordered, and forgets violations and peaks.
  // Memory, streams, events and queued work stay.
  void Recover();
  // Replaces the options.
  void SetOptions(const Options& options);

  std::vector<std::string> violations() const;
  uint64_t pinned_bytes() const;  // allocated now
  uint64_t pinned_bytes_peak() const;
  uint64_t device_bytes(int device) const;  // allocated now
  uint64_t device_bytes_peak(int device) const;
  // Bytes of copies from the host that were begun.
  uint64_t copied_to_device_bytes() const;
  int call_count() const;
  // Streams and events that were not destroyed.
  size_t handle_count() const;

  std::string_view name() const override { return "twin"; }
  Status CheckProcess() const override { return Status(); }
  Result<AddressInfo> Describe(DeviceAddress address) override;
  Result<DeviceAddress> AllocateDevice(int device,
                                       uint64_t byte_count) override;
  void FreeDevice(int device, DeviceAddress memory) override;
  Result<DeviceSpace> Space(int device) override;
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
  Status CopyToDevice(int device, const RowCopy& copy,
                      DeviceStream stream) override;
  Status CopyOnDevices(int device, const DeviceRowCopy& copy,
                       DeviceStream stream) override;
  Status WaitFor(int device, DeviceStream stream, DeviceEvent event) override;
  Result<std::string> Architecture(int device) override;
  Result<DeviceKernel> LoadKernel(int device, const std::string& image,
                                  const std::string& name) override;
  Status Launch(int device, DeviceKernel kernel, const KernelGrid& grid,
                std::span<const KernelArgument> arguments,
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
  // Queues a copy by rows; `row` copies the first byte_count bytes of a row.
  Status QueueCopy(int device, DeviceStream stream, uint64_t row_bytes,
                   uint64_t row_count,
                   std::function<void(uint64_t row, uint64_t byte_count)> row);
  void CopyRow(const RowCopy& copy, bool to_host, uint64_t row,
               uint64_t byte_count);
  DeviceAddress Add(int device, std::string bytes);
  void Remove(DeviceAddress address);
  // Returns the device's bytes, or null and a violation.
  char* Find(DeviceAddress address, uint64_t byte_count);
  bool IsPinned(const char* memory, uint64_t byte_count) const;

  Options options_;
  mutable QuietMutex mutex_;
  std::map<DeviceAddress, Allocation> allocations_;
  std::map<const char*, std::unique_ptr<std::string>> pinned_;
  std::map<std::pair<int, DeviceStream>, Stream> streams_;
  std::map<DeviceEvent, Event> events_;
  std::map<std::string, HostKernel> kernels_by_name_;
  std::map<DeviceKernel, HostKernel> kernels_;
  std::map<int, uint64_t> device_bytes_;
  std::map<int, uint64_t> device_bytes_peak_;
  std::vector<std::string> violations_;
  DeviceAddress next_address_ = uint64_t{1} << 44;
  uint64_t next_handle_ = 16;  // CUDA's default streams have lower numbers
  uint64_t pinned_bytes_ = 0;
  uint64_t pinned_bytes_peak_ = 0;
  uint64_t copied_to_device_bytes_ = 0;
  int call_count_ = 0;
  int failing_call_ = 0;
  int losing_call_ = 0;
  Status failure_;
  int copies_until_cut_ = 0;
  std::atomic<bool> is_lost_{false};
  std::atomic<bool> is_stalled_{false};
};

}  // namespace holdfast
