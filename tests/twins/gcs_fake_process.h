// GcsFake: tests/remote/gcs_fake.py as a child process, for tests.
//
// Thread-safety: one thread. Ownership: the child ends with the object.
// Errors: a test failure when the program cannot be started.
#pragma once

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "stores/cloud/gcs/gcs_bucket.h"
#include "stores/http/http_client.h"

namespace holdfast {

class GcsFake {
 public:
  explicit GcsFake(std::vector<std::string> arguments = {"--bucket", "test"}) {
    int pipe_ends[2];
    if (pipe(pipe_ends) != 0) return;
    arguments.insert(
        arguments.begin(),
        {"python3", HOLDFAST_SOURCE_DIR "/tests/remote/gcs_fake.py", "--port",
         "0"});
    std::vector<char*> argv;
    for (std::string& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    pid_ = fork();
    if (pid_ == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      dup2(pipe_ends[1], STDOUT_FILENO);
      close(pipe_ends[0]);
      close(pipe_ends[1]);
      execvp(argv[0], argv.data());
      _exit(127);
    }
    close(pipe_ends[1]);
    char c = 0;
    while (read(pipe_ends[0], &c, 1) == 1 && c != '\n') url_ += c;
    close(pipe_ends[0]);
    EXPECT_TRUE(url_.starts_with("http://")) << "gcs_fake.py did not start";
  }

  ~GcsFake() {
    if (pid_ <= 0) return;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }

  GcsFake(const GcsFake&) = delete;
  GcsFake& operator=(const GcsFake&) = delete;

  const std::string& url() const { return url_; }

  // Sends POST to /_fake/<verb>, or to `verb` if it begins with "/". Returns
  // the answer's body.
  std::string Tell(const std::string& verb, const std::string& json) {
    HttpRequest request;
    request.method = "POST";
    request.url = url_ + (verb.starts_with("/") ? verb : "/_fake/" + verb);
    request.body = {json};
    const auto answer = client_.Send(request);
    EXPECT_TRUE(answer.ok() && answer->status == 200) << verb;
    return answer.ok() ? answer->body.ToString() : "";
  }

  // Returns the number of requests of one kind: "insert", "chunk", "get", …
  int Count(const std::string& method) {
    const std::string text = Tell("counters", "{}");
    const size_t at = text.find("\"" + method + "\":");
    if (at == std::string::npos) return 0;
    return std::atoi(text.c_str() + at + method.size() + 3);
  }

  // Returns the instance that all tests of a program share.
  static GcsFake& Shared() {
    static GcsFake fake;
    return fake;
  }

 private:
  std::string url_;
  pid_t pid_ = -1;
  HttpClient client_;
};

// Returns an environment with only these variables (and NO_GCE_CHECK).
inline Environment EnvironmentOf(std::map<std::string, std::string> values) {
  values.emplace("NO_GCE_CHECK", "true");
  return [values = std::move(values)](const std::string& name) {
    const auto found = values.find(name);
    return found == values.end() ? std::string() : found->second;
  };
}

inline RemoteOptions QuickOptions() {
  RemoteOptions options;
  options.http.backoff_first = std::chrono::milliseconds(1);
  options.http.backoff_max = std::chrono::milliseconds(5);
  options.http.jitter_seed = 1;
  return options;
}

inline std::shared_ptr<Bucket> FakeBucket(
    const GcsFake& fake, std::map<std::string, std::string> values = {},
    RemoteOptions options = QuickOptions()) {
  values.emplace("STORAGE_EMULATOR_HOST", fake.url());
  auto bucket =
      OpenGcsBucketIn("test", options, EnvironmentOf(std::move(values)));
  EXPECT_TRUE(bucket.ok()) << bucket.status().ToString();
  return bucket.ok() ? *bucket : nullptr;
}

}  // namespace holdfast
