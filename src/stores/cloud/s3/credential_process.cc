#include "stores/cloud/s3/credential_process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "ground/base/status_macros.h"

extern char** environ;

namespace holdfast {
namespace {

constexpr size_t kOutputBytesMax = 1 << 20;

struct Pipe {
  ~Pipe() {
    CloseWriter();
    if (ends[0] >= 0) close(ends[0]);
  }
  void CloseWriter() {
    if (ends[1] >= 0) close(ends[1]);
    ends[1] = -1;
  }
  int ends[2] = {-1, -1};
};

// Reads from `reader` until its end.
Result<std::string> ReadOutput(int reader,
                               std::chrono::steady_clock::time_point deadline) {
  std::string output;
  char buffer[4096];
  for (;;) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        deadline - std::chrono::steady_clock::now());
    if (left.count() <= 0) {
      return DeadlineExceededError("it does not end");
    }
    pollfd ready{reader, POLLIN, 0};
    const int poll_ms =
        static_cast<int>(std::min<long long>(left.count(), 3'600'000));
    if (poll(&ready, 1, poll_ms) <= 0) continue;
    const ssize_t byte_count = read(reader, buffer, sizeof(buffer));
    if (byte_count < 0 && errno == EINTR) continue;
    if (byte_count <= 0) return output;
    output.append(buffer, static_cast<size_t>(byte_count));
    if (output.size() > kOutputBytesMax) {
      return DataLossError("it prints more than 1 MiB");
    }
  }
}

}  // namespace

Result<std::vector<std::string>> SplitCommand(std::string_view command) {
  std::vector<std::string> words;
  std::string word;
  bool in_word = false;
  char quote = 0;
  for (size_t i = 0; i < command.size(); ++i) {
    const char c = command[i];
    const bool is_escape = c == '\\' && quote != '\'';
    if (is_escape && i + 1 < command.size()) {
      const char next = command[i + 1];
      // Within double quotes, a backslash is removed only before these two
      // characters.
      if (quote == '"' && next != '"' && next != '\\') word += c;
      word += next;
      ++i;
      in_word = true;
    } else if (quote != 0) {
      if (c == quote) {
        quote = 0;
      } else {
        word += c;
      }
    } else if (c == '\'' || c == '"') {
      quote = c;
      in_word = true;
    } else if (c == ' ' || c == '\t') {
      if (in_word) words.push_back(std::move(word));
      word.clear();
      in_word = false;
    } else {
      word += c;
      in_word = true;
    }
  }
  if (quote != 0) {
    return InvalidArgumentError("credential_process: a quote does not close");
  }
  if (in_word) words.push_back(std::move(word));
  if (words.empty()) {
    return InvalidArgumentError("credential_process: the command is empty");
  }
  return words;
}

Result<std::string> RunCredentialProcess(std::string_view command,
                                         std::chrono::seconds deadline) {
  HF_ASSIGN_OR_RETURN(std::vector<std::string> words, SplitCommand(command));
  const std::string what = "credential_process " + words[0];
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);

  Pipe pipe;
  if (pipe2(pipe.ends, O_CLOEXEC) != 0) {
    return ResourceExhaustedError(what + ": no pipe: " + std::strerror(errno));
  }
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, pipe.ends[1], STDOUT_FILENO);
  pid_t child = 0;
  const int error = posix_spawnp(&child, arguments[0], &actions, nullptr,
                                 arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) {
    return PermissionDeniedError(what +
                                 ": cannot be run: " + std::strerror(error));
  }
  // This process's copy of the writing end would keep the pipe open after the
  // child exits.
  pipe.CloseWriter();
  const Result<std::string> output =
      ReadOutput(pipe.ends[0], std::chrono::steady_clock::now() + deadline);
  // A child that does not finish in time is killed before it is waited for.
  if (!output.ok()) kill(child, SIGKILL);
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (!output.ok()) return output.status().WithContext(what);
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
    const std::string how =
        WIFEXITED(status)
            ? "ended with status " + std::to_string(WEXITSTATUS(status))
            : "was ended by signal " + std::to_string(WTERMSIG(status));
    return PermissionDeniedError(what + ": " + how);
  }
  return output;
}

}  // namespace holdfast
