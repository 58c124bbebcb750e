// Simulates a system that cannot start more threads: programs that include this
// header define their own pthread_create, which fails on request.
//
// Thread-safety: one ThreadShortage at a time. Included only by tests.
#pragma once

#include <dlfcn.h>
#include <pthread.h>

#include <atomic>
#include <cerrno>

// Clang's sanitizers are linked before this pthread_create and have their own.
#if defined(__clang__) && defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define HOLDFAST_CANNOT_REFUSE_THREADS
#endif
#endif

namespace holdfast {

inline std::atomic<int> threads_to_start{-1};  // -1: any number
inline std::atomic<int> refused_thread_count{0};

// During its lifetime only `started_max` threads can be started.
class ThreadShortage {
 public:
  explicit ThreadShortage(int started_max) {
    refused_thread_count = 0;
    threads_to_start = started_max;
  }
  ~ThreadShortage() { threads_to_start = -1; }
  ThreadShortage(const ThreadShortage&) = delete;
  ThreadShortage& operator=(const ThreadShortage&) = delete;

  // If false, all threads start, and tests should skip themselves.
#ifdef HOLDFAST_CANNOT_REFUSE_THREADS
  static constexpr bool kIsPossible = false;
#else
  static constexpr bool kIsPossible = true;
#endif

  int refused_count() const { return refused_thread_count; }
};

}  // namespace holdfast

extern "C" __attribute__((weak, used)) int pthread_create(
    pthread_t* __restrict thread, const pthread_attr_t* __restrict attributes,
    void* (*run)(void*), void* __restrict argument) noexcept {
  using Create =
      int (*)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);
  static const auto create =
      reinterpret_cast<Create>(::dlsym(RTLD_NEXT, "pthread_create"));
  int left = holdfast::threads_to_start;
  while (left > 0 &&
         !holdfast::threads_to_start.compare_exchange_weak(left, left - 1)) {
  }
  if (left == 0) {
    ++holdfast::refused_thread_count;
    return EAGAIN;
  }
  return create(thread, attributes, run, argument);
}
