// Ranks on one machine: threads, or real processes that communicate by sockets.
// Included only by tests and benchmarks.
//
// Thread-safety: one thread. Units: seconds.
// Errors: aborts if the system provides no sockets or processes.
#pragma once

#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "holdfast/process_group.h"

namespace holdfast {

inline constexpr double kPatienceSeconds = 120;  // if no rank is missing

// Runs `body` on a thread for each rank that is not absent.
inline void OnThreads(int64_t size, double timeout_seconds,
                      const std::function<void(ProcessGroup&)>& body,
                      int64_t absent = -1) {
  std::vector<std::thread> threads;
  for (const auto& transport : MakeThreadTransports(size)) {
    if (transport->rank() == absent) continue;
    threads.emplace_back([&, transport] {
      body(*MakeProcessGroup(transport, {.timeout_seconds = timeout_seconds}));
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// Sends frames, each with a topic and a message, on one stream per pair of
// ranks.
class SocketTransport : public ProcessTransport {
 public:
  // `fds` by rank; the entry of this rank is not used.
  SocketTransport(int64_t rank, std::vector<int> fds)
      : rank_(rank), fds_(std::move(fds)), arrived_(fds_.size()) {}

  int64_t rank() const override { return rank_; }
  int64_t size() const override { return static_cast<int64_t>(fds_.size()); }

  Status Send(int64_t to, std::string_view topic,
              std::string_view message) override {
    const uint64_t sizes[2] = {topic.size(), message.size()};
    std::string frame(reinterpret_cast<const char*>(sizes), sizeof sizes);
    frame += topic;
    frame += message;
    for (size_t done = 0; done < frame.size();) {
      const ssize_t sent = ::send(fds_[to], frame.data() + done,
                                  frame.size() - done, MSG_NOSIGNAL);
      // The other rank is dead; the collective call will notice.
      if (sent <= 0) return Status();
      done += sent;
    }
    return Status();
  }

  Result<std::string> Receive(int64_t from, std::string_view topic,
                              double timeout_seconds) override {
    const auto deadline = std::chrono::steady_clock::now() +
                          std::chrono::duration<double>(timeout_seconds);
    std::map<std::string, std::string>& arrived = arrived_[from];
    for (;;) {
      const auto it = arrived.find(std::string(topic));
      if (it != arrived.end()) {
        std::string message = std::move(it->second);
        arrived.erase(it);
        return message;
      }
      const std::chrono::duration<double> left =
          deadline - std::chrono::steady_clock::now();
      if (!ReadFrame(fds_[from], left.count(), arrived)) {
        return DeadlineExceededError("nothing came");
      }
    }
  }

 private:
  static bool ReadFrame(int fd, double timeout_seconds,
                        std::map<std::string, std::string>& arrived) {
    pollfd poll{fd, POLLIN, 0};
    const int timeout_ms =
        std::max(0, static_cast<int>(timeout_seconds * 1000));
    if (::poll(&poll, 1, timeout_ms) <= 0) return false;
    uint64_t sizes[2];
    if (!ReadAll(fd, reinterpret_cast<char*>(sizes), sizeof sizes)) {
      // The stream is closed, so nothing will arrive until the deadline.
      ::poll(nullptr, 0, timeout_ms);
      return false;
    }
    std::string topic(sizes[0], '\0'), message(sizes[1], '\0');
    if (!ReadAll(fd, topic.data(), topic.size()) ||
        !ReadAll(fd, message.data(), message.size())) {
      return false;
    }
    arrived[topic] = std::move(message);
    return true;
  }

  static bool ReadAll(int fd, char* data, size_t size) {
    for (size_t done = 0; done < size;) {
      const ssize_t got = ::recv(fd, data + done, size - done, 0);
      if (got <= 0) return false;
      done += got;
    }
    return true;
  }

  const int64_t rank_;
  const std::vector<int> fds_;
  std::vector<std::map<std::string, std::string>> arrived_;  // by rank
};

// Sockets between all pairs of `size` processes that will be forked.
class SocketMesh {
 public:
  explicit SocketMesh(int64_t size) : fds_(size, std::vector<int>(size, -1)) {
    for (int64_t a = 0; a < size; ++a) {
      for (int64_t b = a + 1; b < size; ++b) {
        int pair[2];
        if (::socketpair(AF_UNIX, SOCK_STREAM, 0, pair) != 0) std::abort();
        fds_[a][b] = pair[0];
        fds_[b][a] = pair[1];
      }
    }
  }

  // Returns the transport of `rank`; called in that rank's process. Closes the
  // other ranks' ends, so that a rank that dies closes its sockets.
  std::shared_ptr<ProcessTransport> TransportOf(int64_t rank) const {
    for (size_t other = 0; other < fds_.size(); ++other) {
      if (static_cast<int64_t>(other) != rank) Close(fds_[other]);
    }
    return std::make_shared<SocketTransport>(rank, fds_[rank]);
  }

  // Closes all sockets; called in the parent after all children are forked.
  void CloseAll() const {
    for (const std::vector<int>& row : fds_) Close(row);
  }

 private:
  static void Close(const std::vector<int>& row) {
    for (const int fd : row) {
      if (fd >= 0) ::close(fd);
    }
  }

  std::vector<std::vector<int>> fds_;  // [rank][other]
};

// The result of a process, and how it ended.
struct RankEnd {
  std::string report;
  int status = 0;          // as returned by waitpid
  double cpu_seconds = 0;  // used by the process, user and system
};

// Runs `body` in a process for each rank and returns how each ended. REQUIRES:
// there is only one thread.
inline std::vector<RankEnd> OnProcesses(
    int64_t size, double timeout_seconds,
    const std::function<std::string(ProcessGroup&)>& body) {
  const SocketMesh mesh(size);
  std::vector<pid_t> children;
  std::vector<int> report_fds;
  for (int64_t rank = 0; rank < size; ++rank) {
    int report[2];
    if (::pipe(report) != 0) std::abort();
    const pid_t child = ::fork();
    if (child == 0) {
      const auto group = MakeProcessGroup(mesh.TransportOf(rank),
                                          {.timeout_seconds = timeout_seconds});
      const std::string text = body(*group);
      if (::write(report[1], text.data(), text.size()) < 0) ::_exit(3);
      ::_exit(0);
    }
    ::close(report[1]);
    children.push_back(child);
    report_fds.push_back(report[0]);
  }
  mesh.CloseAll();
  std::vector<RankEnd> ends(size);
  for (int64_t rank = 0; rank < size; ++rank) {
    char buffer[4096];
    ssize_t got = 0;
    while ((got = ::read(report_fds[rank], buffer, sizeof buffer)) > 0) {
      ends[rank].report.append(buffer, got);
    }
    ::close(report_fds[rank]);
    rusage usage{};
    ::wait4(children[rank], &ends[rank].status, 0, &usage);
    for (const timeval& time : {usage.ru_utime, usage.ru_stime}) {
      ends[rank].cpu_seconds += static_cast<double>(time.tv_sec) +
                                static_cast<double>(time.tv_usec) * 1e-6;
    }
  }
  return ends;
}

}  // namespace holdfast
