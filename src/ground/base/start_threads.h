// Threads that only help: where the system gives none (limits of processes, of
// memory), the work is done with fewer, or by only the caller.
//
// Thread-safety: pure. Ownership: the caller joins what was started.
// Errors: none; the answer says what there is.
#pragma once

#include <cstddef>
#include <exception>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

namespace holdfast {

// A thread that runs fn(), or nullopt when the system gives none.
template <typename Thread = std::thread, typename Fn>
std::optional<Thread> TryStartThread(Fn&& fn) noexcept {
  try {
    return Thread(std::forward<Fn>(fn));
  } catch (const std::exception&) {  // system_error, bad_alloc
    return std::nullopt;
  }
}

// Adds up to `count` threads to `threads`, each of which runs a copy of `fn`.
template <typename Thread, typename Fn>
void StartThreads(size_t count, std::vector<Thread>& threads,
                  const Fn& fn) noexcept {
  try {
    threads.reserve(threads.size() + count);
    for (size_t i = 0; i < count; ++i) threads.emplace_back(fn);
  } catch (const std::exception&) {  // system_error, bad_alloc
  }
}

}  // namespace holdfast
