// QuietMutex: a mutex that ThreadSanitizer does not see, nor what a thread does
// while it holds it.
//
// A twin that all threads call would otherwise put their calls in an order, as
// the real thing need not, and so hide races of the code under test.
// Thread-safety: as std::mutex, of which it has lock and unlock.
#pragma once

#include <mutex>

#if defined(__SANITIZE_THREAD__)
#define HOLDFAST_HAS_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define HOLDFAST_HAS_TSAN 1
#endif
#endif

#ifdef HOLDFAST_HAS_TSAN
extern "C" {  // of its runtime, which has no header for them
void AnnotateIgnoreSyncBegin(const char* file, int line);
void AnnotateIgnoreSyncEnd(const char* file, int line);
void AnnotateIgnoreReadsBegin(const char* file, int line);
void AnnotateIgnoreReadsEnd(const char* file, int line);
void AnnotateIgnoreWritesBegin(const char* file, int line);
void AnnotateIgnoreWritesEnd(const char* file, int line);
}
#endif

namespace holdfast {

class QuietMutex {
 public:
  void lock() {
#ifdef HOLDFAST_HAS_TSAN
    AnnotateIgnoreSyncBegin(__FILE__, __LINE__);
    AnnotateIgnoreReadsBegin(__FILE__, __LINE__);
    AnnotateIgnoreWritesBegin(__FILE__, __LINE__);
#endif
    mutex_.lock();
  }
  void unlock() {
    mutex_.unlock();
#ifdef HOLDFAST_HAS_TSAN
    AnnotateIgnoreWritesEnd(__FILE__, __LINE__);
    AnnotateIgnoreReadsEnd(__FILE__, __LINE__);
    AnnotateIgnoreSyncEnd(__FILE__, __LINE__);
#endif
  }

 private:
  std::mutex mutex_;
};

}  // namespace holdfast
