// Starts helper threads. If the system provides none (limits on processes or
// memory), fewer threads do the work, or only the caller's thread does.
//
// Thread-safety: pure. Ownership: the caller joins the started threads.
// Errors: none; the results show which threads started.
#pragma once

#include <cstddef>
#include <exception>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

namespace holdfast {

// Starts a thread that runs fn(), or returns nullopt if the system provides
// none.
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
