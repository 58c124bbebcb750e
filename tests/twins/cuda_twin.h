// The controls of a libcuda.so.1 whose devices are a DeviceTwin.
//
// The library is <build>/tests/twins/cuda/libcuda.so.1. A test in any language
// loads it by that path, before the engine asks for "libcuda.so.1", which then
// finds it by its name. It has the functions of CUDA that cuda_driver.cc calls,
// and those below. Its devices do what device_twin.h says: work that is queued
// on a stream is done when somebody queries an event.
//
// It answers as CUDA documents, and where CUDA may do either, as is harder for
// the caller: most calls need a context, streams and events belong to their
// device, and all but a few calls are refused, and end the capture, while a
// graph is captured and the thread's mode is not relaxed.
//
// HOLDFAST_TWIN_DEVICES is the count of devices at first (default: 1).
//
// Thread-safety: any thread. Ownership: the caller frees what it allocates.
// Units: bytes. Errors: a call that cannot do what it should adds a violation.
#pragma once

#include <cstdint>

extern "C" {

#define TWIN_EXPORT __attribute__((visibility("default")))

// Ends all faults and captures, and forgets counts and violations, as if the
// library had not been begun. Memory, streams and events stay, because the
// engine keeps some for as long as the process lives.
TWIN_EXPORT void twin_reset(int device_count);

// ---- the program's memory and work

TWIN_EXPORT uint64_t twin_allocate(int device, const void* bytes,
                                   uint64_t byte_count);
// Memory that moves between the host and devices.
TWIN_EXPORT uint64_t twin_allocate_managed(int device, const void* bytes,
                                           uint64_t byte_count);
TWIN_EXPORT void twin_free(uint64_t address);
// Read and write at once, whatever is queued.
TWIN_EXPORT void twin_read(uint64_t address, void* out, uint64_t byte_count);
TWIN_EXPORT void twin_write(uint64_t address, const void* bytes,
                            uint64_t byte_count);
// A stream of the program, which waits for the default stream.
TWIN_EXPORT uint64_t twin_new_stream(int device);
TWIN_EXPORT void twin_drop_stream(uint64_t stream);
// Queues a write, which takes effect at the `poll_count`-th poll from then on
// that nothing before it on its stream holds up.
TWIN_EXPORT void twin_queue_write(int device, uint64_t stream, uint64_t address,
                                  const void* bytes, uint64_t byte_count,
                                  int poll_count);
// Begins a capture of the stream's work into a graph, in CUDA's mode `mode`
// (0: global, 1: this thread's). There is one capture at a time.
TWIN_EXPORT void twin_begin_capture(uint64_t stream, int mode);
// Returns whether nothing has invalidated the capture.
TWIN_EXPORT int twin_end_capture(void);
// Lets modules have a kernel of this name, which runs on the host. Arguments
// that are addresses of devices become pointers.
typedef void (*twin_kernel)(uint32_t block_count, uint32_t block_threads,
                            const uint64_t* arguments);
TWIN_EXPORT void twin_add_kernel(const char* name, twin_kernel kernel,
                                 int argument_count);

// ---- faults

// Lets the `call`-th call from now (1: the next) return `code`.
TWIN_EXPORT void twin_fail_call(int call, int code);
// Lets the next call of a function return `code`: "cuMemAlloc_v2".
TWIN_EXPORT void twin_fail_function(const char* name, int code);
// Lets no copy end while it is not 0.
TWIN_EXPORT void twin_stall(int is_stalled);
// Lets all calls fail from now on, as after a failure of the hardware.
TWIN_EXPORT void twin_lose(void);
// Lets the `copy`-th copy from now end in its middle, and the device with it.
TWIN_EXPORT void twin_cut_copy(int copy);
TWIN_EXPORT void twin_set_init_result(int code);
TWIN_EXPORT void twin_set_driver_version(int version);
TWIN_EXPORT void twin_set_pinned_bytes_max(uint64_t byte_count);
TWIN_EXPORT void twin_set_device_bytes_max(uint64_t byte_count);

// ---- what happened

TWIN_EXPORT uint64_t twin_pinned_bytes(void);
TWIN_EXPORT uint64_t twin_pinned_bytes_peak(void);
TWIN_EXPORT uint64_t twin_device_bytes(int device);
TWIN_EXPORT uint64_t twin_device_bytes_peak(int device);
// Calls of CUDA's functions.
TWIN_EXPORT int twin_call_count(void);
// Streams and events that were not destroyed.
TWIN_EXPORT uint64_t twin_handle_count(void);
TWIN_EXPORT uint64_t twin_module_count(void);
// Return the count of contexts, and the mode, of the calling thread.
TWIN_EXPORT int twin_context_depth(void);
TWIN_EXPORT int twin_capture_mode(void);
TWIN_EXPORT int twin_violation_count(void);
// The text is valid until the thread's next call of this.
TWIN_EXPORT const char* twin_violation(int index);

}  // extern "C"
