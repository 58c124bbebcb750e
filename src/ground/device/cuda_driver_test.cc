// Tests of the driver on a library whose devices are in host memory
// (tests/twins/cuda_twin.h), which this program is linked with.
#include "ground/device/cuda_driver.h"

#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "ground/device/cuda_abi.h"
#include "gtest/gtest.h"
#include "twins/cuda_twin.h"

namespace holdfast {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr char kTwin[] = "libcuda.so.1";

std::string MessageOf(const Status& status) {
  return std::string(status.message());
}

// Returns a function of the library, for what a program would do by itself.
template <typename Function>
Function Symbol(const char* name, Function) {
  return reinterpret_cast<Function>(dlsym(RTLD_DEFAULT, name));
}
#define CUDA_CALL(name, symbol) Symbol(#symbol, cuda::CudaCalls().name)

// out[i] = in[i] + number, for `count` bytes.
void AddNumber(uint32_t, uint32_t, const uint64_t* arguments) {
  const auto* const in = reinterpret_cast<const char*>(arguments[0]);
  auto* const out = reinterpret_cast<char*>(arguments[1]);
  for (uint64_t i = 0; i < arguments[3]; ++i) {
    out[i] = static_cast<char>(in[i] + static_cast<char>(arguments[2]));
  }
}

class CudaDriverTest : public ::testing::Test {
 protected:
  void SetUp() override {
    twin_reset(2);
    auto loaded = LoadCudaDriver(kTwin);
    ASSERT_TRUE(loaded.ok()) << loaded.status().ToString();
    driver_ = *std::move(loaded);
    handle_count_ = twin_handle_count();
    pinned_bytes_ = twin_pinned_bytes();
  }
  void TearDown() override {
    for (const uint64_t address : allocated_) twin_free(address);
    for (const uint64_t stream : streams_) twin_drop_stream(stream);
    EXPECT_EQ(twin_violation_count(), 0) << twin_violation(0);
    EXPECT_EQ(twin_handle_count(), handle_count_);
    EXPECT_EQ(twin_pinned_bytes(), pinned_bytes_);
    ExpectThreadAsBefore();
  }

  // A thread of a program has no context, and the default mode of captures.
  static void ExpectThreadAsBefore() {
    EXPECT_EQ(twin_context_depth(), 0);
    EXPECT_EQ(twin_capture_mode(), 0);
  }

  uint64_t Allocate(int device, const std::string& bytes) {
    allocated_.push_back(twin_allocate(device, bytes.data(), bytes.size()));
    return allocated_.back();
  }
  uint64_t NewStream(int device) {
    streams_.push_back(twin_new_stream(device));
    return streams_.back();
  }
  static std::string Read(uint64_t address, size_t byte_count) {
    std::string bytes(byte_count, '\0');
    twin_read(address, bytes.data(), byte_count);
    return bytes;
  }

  // Waits until the stream's work has ended.
  Status Finish(int device, DeviceStream stream) {
    const auto event = driver_->CreateEvent(device);
    if (!event.ok()) return event.status();
    Status status = driver_->Record(device, *event, stream);
    for (bool has_passed = false; status.ok() && !has_passed;) {
      const auto passed = driver_->HasPassed(device, *event);
      status = passed.status();
      has_passed = passed.ok() && *passed;
    }
    driver_->DestroyEvent(device, *event);
    return status;
  }

  // Runs `fn` with a stream and an event, which may fail to be made.
  Status WithStream(
      int device, const std::function<Status(DeviceStream, DeviceEvent)>& fn) {
    const auto stream = driver_->CreateStream(device);
    if (!stream.ok()) return stream.status();
    const auto event = driver_->CreateEvent(device);
    const Status status = event.ok() ? fn(*stream, *event) : event.status();
    if (event.ok()) driver_->DestroyEvent(device, *event);
    driver_->DestroyStream(device, *stream);
    return status;
  }

  // All of the interface: each makes several calls of the library.
  std::vector<std::function<Status()>> Operations(uint64_t address) {
    return {
        [=, this] { return driver_->Describe(address).status(); },
        [=, this]() -> Status {
          const auto memory = driver_->AllocateDevice(0, 300);
          if (memory.ok()) driver_->FreeDevice(0, *memory);
          return memory.status();
        },
        [=, this] { return driver_->Space(0).status(); },
        [=, this]() -> Status {
          const auto memory = driver_->AllocatePinned(0, 300);
          if (memory.ok()) driver_->FreePinned(0, *memory);
          return memory.status();
        },
        [=, this] { return driver_->Architecture(0).status(); },
        [=, this]() -> Status {
          const auto kernel = driver_->LoadKernel(0, "image", "add");
          if (!kernel.ok()) return kernel.status();
          const KernelArgument arguments[] = {
              {address, true}, {address, true}, {0, false}, {8, false}};
          return driver_->Launch(0, *kernel, {}, arguments, 0);
        },
        [=, this] {
          return WithStream(0, [&](DeviceStream stream, DeviceEvent event) {
            Status status = driver_->Record(0, event, stream);
            if (status.ok()) status = driver_->WaitFor(0, stream, event);
            if (status.ok()) status = driver_->HasPassed(0, event).status();
            return status;
          });
        },
        [=, this] { return Copies(address); },
    };
  }

  // Copies 8 bytes there and back, in one row and in two.
  Status Copies(uint64_t address) {
    const auto pinned = driver_->AllocatePinned(0, 8);
    if (!pinned.ok()) return pinned.status();
    Status status;
    for (const uint64_t row_count : {1, 2}) {
      const RowCopy rows{address, 4, *pinned, 4, 8 / row_count, row_count};
      const DeviceRowCopy beside{address,       4,        address + 64, 4,
                                 8 / row_count, row_count};
      if (status.ok()) status = driver_->CopyToHost(0, rows, 0);
      if (status.ok()) status = driver_->CopyToDevice(0, rows, 0);
      if (status.ok()) status = driver_->CopyOnDevices(0, beside, 0);
    }
    // Copies that were begun use the memory until they have ended.
    twin_fail_function("", 0);
    const Status finished = Finish(0, 0);
    driver_->FreePinned(0, *pinned);
    return status.ok() ? finished : status;
  }

  std::unique_ptr<DeviceDriver> driver_;
  std::vector<uint64_t> allocated_;
  std::vector<uint64_t> streams_;
  uint64_t handle_count_ = 0;
  uint64_t pinned_bytes_ = 0;
};

TEST(CudaDriver, ALibraryThatIsMissingOrAnotherIsAFailedPrecondition) {
  const auto missing = LoadCudaDriver("/nonexistent/libcuda.so.1");
  EXPECT_EQ(missing.status().code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(MessageOf(missing.status()), HasSubstr("cannot be loaded"));
  const auto other = LoadCudaDriver("libc.so.6");
  EXPECT_EQ(other.status().code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(MessageOf(other.status()), HasSubstr("libc.so.6 has no cuInit"));
}

TEST(CudaDriver, GivesTheSameAnswerAgain) {
  twin_reset(1);
  const auto first = CudaDriver();
  const auto again = CudaDriver();
  ASSERT_TRUE(first.ok() && again.ok());
  EXPECT_EQ(*first, *again);
}

TEST(CudaDriver, EachWayInWhichTheLibraryDoesNotBeginIsNamed) {
  struct Case {
    int result;
    StatusCode code;
    const char* message;
  };
  const Case cases[] = {
      {3, StatusCode::kFailedPrecondition, "was forked after CUDA had begun"},
      {34, StatusCode::kFailedPrecondition, "CUDA_ERROR_STUB_LIBRARY (34)"},
      {100, StatusCode::kFailedPrecondition, "CUDA_ERROR_NO_DEVICE (100)"},
      {803, StatusCode::kFailedPrecondition, "DRIVER_MISMATCH (803)"},
      {804, StatusCode::kFailedPrecondition, "NOT_SUPPORTED_ON_DEVICE (804)"},
      {999, StatusCode::kUnavailable, "cuInit: CUDA_ERROR_UNKNOWN (999)"},
      {12345, StatusCode::kUnavailable, "cuInit: unknown error (12345)"},
  };
  for (const Case& wanted : cases) {
    SCOPED_TRACE(wanted.result);
    twin_reset(1);
    twin_set_init_result(wanted.result);
    const Status status = LoadCudaDriver(kTwin).status();
    EXPECT_EQ(status.code(), wanted.code);
    EXPECT_THAT(MessageOf(status), HasSubstr(wanted.message));
  }
}

TEST(CudaDriver, ADriverThatIsOldOrHasNoDeviceIsAFailedPrecondition) {
  twin_reset(1);
  twin_set_driver_version(10020);
  const Status old = LoadCudaDriver(kTwin).status();
  EXPECT_EQ(old.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(MessageOf(old), HasSubstr("got 10020, want 11000 or later"));
  twin_set_driver_version(11000);
  EXPECT_TRUE(LoadCudaDriver(kTwin).ok());
  twin_reset(0);
  EXPECT_EQ(LoadCudaDriver(kTwin).status().code(),
            StatusCode::kFailedPrecondition);
}

TEST_F(CudaDriverTest, DescribesEachKindOfMemory) {
  const uint64_t address = Allocate(1, std::string(1000, 'a'));
  const auto device = driver_->Describe(address + 999);
  ASSERT_TRUE(device.ok()) << device.status().ToString();
  EXPECT_EQ(device->home, MemoryHome::kDevice);
  EXPECT_EQ(device->device, 1);
  EXPECT_EQ(device->begin, address);
  EXPECT_EQ(device->byte_count, 1000u);

  const uint64_t moving = twin_allocate_managed(0, "abcd", 4);
  allocated_.push_back(moving);
  const auto managed = driver_->Describe(moving + 3);
  ASSERT_TRUE(managed.ok()) << managed.status().ToString();
  EXPECT_EQ(managed->home, MemoryHome::kManaged);
  EXPECT_EQ(managed->device, 0);
  EXPECT_EQ(managed->begin, moving);
  EXPECT_EQ(managed->byte_count, 4u);

  char* const memory = *driver_->AllocatePinned(1, 10);
  const auto pinned = driver_->Describe(reinterpret_cast<uint64_t>(memory) + 9);
  ASSERT_TRUE(pinned.ok());
  EXPECT_EQ(pinned->home, MemoryHome::kPinned);
  EXPECT_EQ(pinned->device, -1);
  driver_->FreePinned(1, memory);

  const int on_stack = 0;
  const auto host = driver_->Describe(reinterpret_cast<uint64_t>(&on_stack));
  ASSERT_TRUE(host.ok());
  EXPECT_EQ(host->home, MemoryHome::kHost);
}

TEST_F(CudaDriverTest, CopiesRowsInEachDirection) {
  const uint64_t first = Allocate(0, "abcdefghijklmnop");
  const uint64_t second = Allocate(1, std::string(16, '.'));
  char* const host = *driver_->AllocatePinned(0, 16);
  std::string(16, '-').copy(host, 16);
  const DeviceStream stream = *driver_->CreateStream(0);

  const RowCopy rows{first, 8, host, 5, 3, 2};
  ASSERT_TRUE(driver_->CopyToHost(0, rows, stream).ok());
  ASSERT_TRUE(Finish(0, stream).ok());
  EXPECT_EQ(std::string(host, 16), "abc--ijk--------");
  ASSERT_TRUE(
      driver_->CopyToHost(0, {first + 4, 0, host, 0, 4, 1}, stream).ok());
  ASSERT_TRUE(Finish(0, stream).ok());
  EXPECT_EQ(std::string(host, 16), "efgh-ijk--------");

  ASSERT_TRUE(driver_->CopyToDevice(0, rows, stream).ok());
  ASSERT_TRUE(
      driver_->CopyToDevice(0, {first + 14, 0, host + 4, 0, 2, 1}, stream)
          .ok());
  ASSERT_TRUE(Finish(0, stream).ok());
  EXPECT_EQ(Read(first, 16), "efgdefghijklmn-i");

  ASSERT_TRUE(
      driver_->CopyOnDevices(0, {first, 8, second, 4, 3, 2}, stream).ok());
  ASSERT_TRUE(
      driver_->CopyOnDevices(0, {first, 0, second + 10, 0, 6, 1}, stream).ok());
  ASSERT_TRUE(Finish(0, stream).ok());
  EXPECT_EQ(Read(second, 16), "efg.ijk...efgdef");

  // CUDA refuses addresses that it does not know.
  EXPECT_EQ(driver_->CopyToHost(0, {64, 0, host, 0, 4, 1}, stream).code(),
            StatusCode::kInvalidArgument);
  driver_->DestroyStream(0, stream);
  driver_->FreePinned(0, host);
}

TEST_F(CudaDriverTest, EventsPassWhenTheWorkBeforeThemHasEnded) {
  const uint64_t address = Allocate(0, "old ");
  const uint64_t program = NewStream(0);
  // 0 and 1 are the legacy default stream, 2 is the thread's.
  for (const uint64_t stream :
       {uint64_t{0}, uint64_t{1}, uint64_t{2}, program}) {
    SCOPED_TRACE(stream);
    twin_write(address, "old ", 4);
    twin_queue_write(0, stream, address, "new!", 4, 3);
    const DeviceEvent event = *driver_->CreateEvent(0);
    ASSERT_TRUE(driver_->Record(0, event, stream).ok());
    int poll_count = 0;
    while (!*driver_->HasPassed(0, event)) {
      EXPECT_EQ(Read(address, 4), ++poll_count < 3 ? "old " : "new!");
    }
    EXPECT_EQ(poll_count, 3);
    driver_->DestroyEvent(0, event);
  }
}

TEST_F(CudaDriverTest, AStreamWaitsForAnEventOfAnotherDevice) {
  const uint64_t source = Allocate(0, "old ");
  const uint64_t target = Allocate(1, "....");
  const uint64_t program = NewStream(0);
  twin_queue_write(0, program, source, "new!", 4, 5);
  const DeviceEvent written = *driver_->CreateEvent(0);
  ASSERT_TRUE(driver_->Record(0, written, program).ok());
  const DeviceStream stream = *driver_->CreateStream(1);
  ASSERT_TRUE(driver_->WaitFor(1, stream, written).ok());
  ASSERT_TRUE(
      driver_->CopyOnDevices(1, {source, 0, target, 0, 4, 1}, stream).ok());
  ASSERT_TRUE(Finish(1, stream).ok());
  EXPECT_EQ(Read(target, 4), "new!");
  driver_->DestroyStream(1, stream);
  driver_->DestroyEvent(0, written);
}

TEST_F(CudaDriverTest, StreamsAndEventsOfOtherDevicesAreRefused) {
  const uint64_t stream = NewStream(1);
  const DeviceEvent event = *driver_->CreateEvent(0);
  for (const uint64_t other : {stream, uint64_t{1} << 40}) {
    const Status status = driver_->Record(0, event, other);
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    EXPECT_EQ(MessageOf(status),
              "device 0: CUDA: the stream is not one of this device's primary "
              "context");
  }
  EXPECT_EQ(driver_->Record(1, event, stream).code(),
            StatusCode::kInvalidArgument);
  driver_->DestroyEvent(0, event);
  for (const int device : {-1, 2}) {
    const Status status = driver_->Space(device).status();
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(MessageOf(status), HasSubstr("of 2"));
  }
}

TEST_F(CudaDriverTest, MemoryOfTheDeviceIsAllocatedUpToItsSize) {
  twin_set_device_bytes_max(twin_device_bytes(1) + 1000);
  const auto memory = driver_->AllocateDevice(1, 600);
  ASSERT_TRUE(memory.ok());
  EXPECT_EQ(driver_->Describe(*memory)->device, 1);
  const auto space = driver_->Space(1);
  ASSERT_TRUE(space.ok());
  EXPECT_EQ(space->free_bytes, 400u);
  EXPECT_EQ(space->total_bytes, twin_device_bytes(1) + 400);
  const Status full = driver_->AllocateDevice(1, 600).status();
  EXPECT_EQ(full.code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(MessageOf(full),
            "device 1: CUDA: cuMemAlloc: CUDA_ERROR_OUT_OF_MEMORY (2)");
  driver_->FreeDevice(1, *memory);
  EXPECT_EQ(driver_->Space(1)->free_bytes, 1000u);

  twin_set_pinned_bytes_max(twin_pinned_bytes() + 100);
  EXPECT_EQ(driver_->AllocatePinned(0, 101).status().code(),
            StatusCode::kResourceExhausted);
}

TEST_F(CudaDriverTest, KernelsAreLoadedAndLaunched) {
  twin_add_kernel("add", AddNumber, 4);
  EXPECT_EQ(*driver_->Architecture(1), "compute_90");
  const uint64_t in = Allocate(1, "abcd");
  const uint64_t out = Allocate(1, "....");
  const auto kernel = driver_->LoadKernel(1, "image", "add");
  ASSERT_TRUE(kernel.ok());
  const KernelArgument arguments[] = {
      {in, true}, {out, true}, {2, false}, {3, false}};
  ASSERT_TRUE(driver_->Launch(1, *kernel, {7, 128}, arguments, 0).ok());
  ASSERT_TRUE(Finish(1, 0).ok());
  EXPECT_EQ(Read(out, 4), "cde.");
  EXPECT_EQ(driver_->Launch(1, *kernel, {7, 2048}, arguments, 0).code(),
            StatusCode::kInvalidArgument);

  const uint64_t module_count = twin_module_count();
  const Status unknown = driver_->LoadKernel(1, "image", "sub").status();
  EXPECT_EQ(unknown.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(MessageOf(unknown), HasSubstr("sub: CUDA_ERROR_NOT_FOUND"));
  for (const int code : {200, 209, 218, 222}) {
    twin_fail_function("cuModuleLoadData", code);
    EXPECT_EQ(driver_->LoadKernel(1, "image", "add").status().code(),
              StatusCode::kInvalidArgument);
  }
  EXPECT_EQ(twin_module_count(), module_count);
}

TEST_F(CudaDriverTest, ACaptureOfTheProgramsGoesOn) {
  twin_add_kernel("add", AddNumber, 4);
  const uint64_t address = Allocate(0, std::string(100, 'a'));
  const uint64_t stream = NewStream(0);
  const DeviceEvent event = *driver_->CreateEvent(0);
  const DeviceStream own = *driver_->CreateStream(0);
  for (const int mode : {0, 1}) {
    // The device's context is not yet known to this driver.
    auto fresh = LoadCudaDriver(kTwin);
    ASSERT_TRUE(fresh.ok());
    twin_begin_capture(stream, mode);
    EXPECT_TRUE((*fresh)->Describe(address).ok());
    // The default stream would wait for the captured one.
    for (const uint64_t of_program : {uint64_t{0}, uint64_t{1}, stream}) {
      const Status status = driver_->Record(0, event, of_program);
      EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
      EXPECT_THAT(MessageOf(status), HasSubstr("is being captured"));
    }
    EXPECT_TRUE(driver_->Record(0, event, own).ok());
    EXPECT_TRUE(driver_->HasPassed(0, event).ok());
    const auto operations = Operations(address);
    for (size_t i = 0; i < 5; ++i) EXPECT_TRUE(operations[i]().ok()) << i;
    // Nor does another thread break a capture.
    std::thread([&] { EXPECT_TRUE(operations[0]().ok()); }).join();
    EXPECT_TRUE(twin_end_capture());
    ExpectThreadAsBefore();
  }
  // A capture that something else has broken is still one.
  twin_begin_capture(stream, 0);
  DeviceAddress memory = 0;
  EXPECT_NE(CUDA_CALL(device_alloc, cuMemAlloc_v2)(&memory, 4), 0);
  const auto free_there = [&] {
    return driver_->Record(0, event, stream).code();
  };
  EXPECT_EQ(free_there(), StatusCode::kFailedPrecondition);
  twin_end_capture();
  EXPECT_EQ(free_there(), StatusCode::kOk);
  // A capture on another device does not concern this device.
  twin_begin_capture(NewStream(1), 0);
  EXPECT_TRUE(driver_->Record(0, event, 0).ok());
  EXPECT_TRUE(twin_end_capture());
  driver_->DestroyStream(0, own);
  driver_->DestroyEvent(0, event);
}

// Each operation, with each function of the library failing in turn: the thread
// keeps its context and its mode, and nothing is left allocated.
TEST_F(CudaDriverTest, AFailureIsReportedAndLeavesTheThreadAsItWas) {
  twin_add_kernel("add", AddNumber, 4);
  const uint64_t address = Allocate(0, std::string(100, 'a'));
#define NAME(name, symbol, parameters) #symbol,
  const std::vector<std::string> functions = {HOLDFAST_CUDA_CALLS(NAME)};
#undef NAME
  // Calls that release, or end a change of the thread's, cannot report a
  // failure.
  const std::set<std::string> silent = {"cuMemFree_v2",
                                        "cuMemFreeHost",
                                        "cuStreamDestroy_v2",
                                        "cuEventDestroy_v2",
                                        "cuCtxPopCurrent_v2",
                                        "cuModuleUnload",
                                        "cuThreadExchangeStreamCaptureMode",
                                        "cuStreamIsCapturing"};
  std::set<std::string> failed;
  for (const std::string& function : functions) {
    for (size_t i = 0; i < Operations(address).size(); ++i) {
      SCOPED_TRACE(function + " in operation " + std::to_string(i));
      // A driver that has not taken the context yet.
      driver_ = *LoadCudaDriver(kTwin);
      const int call_count = twin_call_count();
      twin_fail_function(function.c_str(), 719);
      const Status status = Operations(address)[i]();
      twin_fail_function("", 0);
      EXPECT_GT(twin_call_count(), call_count);
      ExpectThreadAsBefore();
      if (!status.ok()) {
        failed.insert(function);
        EXPECT_EQ(status.code(), StatusCode::kUnavailable);
        EXPECT_THAT(MessageOf(status), HasSubstr("LAUNCH_FAILED (719)"));
      }
      const Status again = Operations(address)[i]();
      EXPECT_TRUE(again.ok()) << again.ToString();
    }
  }
  for (const std::string& function : functions) {
    const bool is_of_begin =
        function == "cuInit" || function == "cuDriverGetVersion" ||
        function == "cuDeviceGetCount" || function == "cuGetErrorString";
    EXPECT_EQ(failed.contains(function),
              !is_of_begin && !silent.contains(function))
        << function;
  }
  // Memory and handles that could not be released.
  handle_count_ += 2;
  pinned_bytes_ += 300;
  EXPECT_EQ(twin_device_bytes(0), 100u + 300u);
}

TEST_F(CudaDriverTest, AContextOfTheProgramsStaysCurrent) {
  twin_add_kernel("add", AddNumber, 4);
  cuda::CuContext context = nullptr;
  ASSERT_EQ(CUDA_CALL(retain_context, cuDevicePrimaryCtxRetain)(&context, 1),
            0);
  ASSERT_EQ(CUDA_CALL(push_context, cuCtxPushCurrent_v2)(context), 0);
  const uint64_t address = Allocate(0, std::string(100, 'a'));
  for (const auto& operation : Operations(address)) {
    const Status status = operation();
    EXPECT_TRUE(status.ok()) << status.ToString();
  }
  EXPECT_EQ(twin_context_depth(), 1);
  cuda::CuContext popped = nullptr;
  ASSERT_EQ(CUDA_CALL(pop_context, cuCtxPopCurrent_v2)(&popped), 0);
  EXPECT_EQ(popped, context);
}

TEST_F(CudaDriverTest, ALostDeviceIsUnavailableAndNamed) {
  const uint64_t address = Allocate(0, std::string(100, 'a'));
  const DeviceEvent event = *driver_->CreateEvent(0);
  twin_lose();
  for (const auto& operation : Operations(address)) {
    const Status status = operation();
    // Architecture asks for what does not change.
    if (status.ok()) continue;
    EXPECT_EQ(status.code(), StatusCode::kUnavailable);
    EXPECT_THAT(MessageOf(status), StartsWith("device 0: CUDA: cu"));
  }
  const Status asked = driver_->HasPassed(0, event).status();
  EXPECT_EQ(MessageOf(asked),
            "device 0: CUDA: cuEventQuery: CUDA_ERROR_LAUNCH_FAILED (719)");
  ExpectThreadAsBefore();
  twin_reset(2);
  driver_ = *LoadCudaDriver(kTwin);
  driver_->DestroyEvent(0, event);
}

TEST_F(CudaDriverTest, ACopyThatIsCutOffFailsItsEventAndAllThatFollows) {
  const uint64_t address = Allocate(0, "abcdefgh");
  char* const host = *driver_->AllocatePinned(0, 8);
  const DeviceStream stream = *driver_->CreateStream(0);
  twin_cut_copy(1);
  ASSERT_TRUE(driver_->CopyToHost(0, {address, 0, host, 0, 8, 1}, stream).ok());
  const Status finished = Finish(0, stream);
  EXPECT_EQ(finished.code(), StatusCode::kUnavailable);
  EXPECT_THAT(MessageOf(finished), HasSubstr("ILLEGAL_ADDRESS (700)"));
  EXPECT_EQ(driver_->Space(0).status().code(), StatusCode::kUnavailable);
  twin_reset(2);
  driver_ = *LoadCudaDriver(kTwin);
  driver_->DestroyStream(0, stream);
  driver_->FreePinned(0, host);
  handle_count_ += 1;  // Finish could not destroy its event
}

// Returns what `fn` returns in a child process.
int InChild(const std::function<bool()>& fn) {
  const ::pid_t child = ::fork();
  if (child == 0) ::_exit(fn() ? 0 : 1);
  int status = 0;
  ::waitpid(child, &status, 0);
  return status;
}

TEST_F(CudaDriverTest, AForkedProcessIsToldSo) {
  const uint64_t address = Allocate(0, "abcd");
  ASSERT_TRUE(driver_->CheckProcess().ok());
  const int status = InChild([&] {
    const int call_count = twin_call_count();
    const auto is_told = [](const Status& answer) {
      return answer.code() == StatusCode::kFailedPrecondition &&
             answer.message().find("was forked") != std::string::npos;
    };
    bool all_told = is_told(driver_->CheckProcess());
    for (const auto& operation : Operations(address)) {
      all_told = all_told && is_told(operation());
    }
    // CUDA is not called at all, because in a child it may do anything.
    return all_told && twin_call_count() == call_count &&
           is_told(LoadCudaDriver(kTwin).status());
  });
  EXPECT_EQ(status, 0);
}

TEST_F(CudaDriverTest, ManyThreadsUseBothDevices) {
  constexpr int kThreadCount = 8;
  constexpr int kRounds = 40;
  std::atomic<int> right_count{0};
  std::atomic<int> clean_count{0};
  const uint64_t addresses[] = {Allocate(0, "on device 0"),
                                Allocate(1, "on device 1")};
  const auto round = [&](int device) {
    char* const host = *driver_->AllocatePinned(device, 11);
    const bool is_copied =
        WithStream(device, [&](DeviceStream stream, DeviceEvent event) {
          Status status = driver_->CopyToHost(
              device, {addresses[device], 0, host, 0, 11, 1}, stream);
          if (status.ok()) status = driver_->Record(device, event, stream);
          while (status.ok() && !*driver_->HasPassed(device, event)) {
          }
          return status;
        }).ok();
    const bool is_right =
        is_copied &&
        std::string(host, 11) == "on device " + std::to_string(device) &&
        driver_->Describe(addresses[device])->device == device;
    driver_->FreePinned(device, host);
    return is_right;
  };
  std::vector<std::jthread> threads;
  for (int i = 0; i < kThreadCount; ++i) {
    threads.emplace_back([&, i] {
      for (int k = 0; k < kRounds; ++k) right_count += round((i + k) % 2);
      clean_count += twin_context_depth() == 0 && twin_capture_mode() == 0;
    });
  }
  threads.clear();
  EXPECT_EQ(right_count, kThreadCount * kRounds);
  EXPECT_EQ(clean_count, kThreadCount);
}

}  // namespace
}  // namespace holdfast
