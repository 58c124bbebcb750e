// serve: serves checkpoints over HTTP.

#include <chrono>
#include <mutex>
#include <thread>

#include "cli/failures.h"
#include "cli/flags.h"
#include "cli/json_out.h"
#include "cli/verbs.h"
#include "holdfast/tools/serve.h"

namespace holdfast::cli {
namespace {

struct ServeArgs : Args {
  ServeOptions serve = {.port = 8017};

  template <typename Fn>
  void Fields(const Fn& fn) {
    Args::Fields(fn);
    fn("host", serve.host);
    fn("port", serve.port);
    fn("token", serve.token);
  }
};

ServeOptions ServeOptionsOf(const ServeArgs& args, const Env& env) {
  ServeOptions options = args.serve;
  options.paths = args.operands;
  if (options.paths.empty()) options.paths = {"."};
  options.open = args.open;
  options.run = RunOptionsOf(args, env);
  options.run.cancel = nullptr;  // cancels the server, not a response
  return options;
}

int RunServe(const ServeArgs& args, Env& env) {
  ServeOptions options = ServeOptionsOf(args, env);
  std::mutex mutex;
  if (!args.quiet) {
    options.log = [&](const std::string& line) {
      const std::lock_guard lock(mutex);
      env.err << line << '\n' << std::flush;
    };
  }
  const auto server = Server::Start(options);
  if (!server.ok()) return Fail(env, server.status());
  {
    const std::lock_guard lock(mutex);
    if (args.json) {
      JsonWriter json(env.out);
      json.BeginObject();
      json.Field("url", (*server)->url());
      json.Field("port", uint64_t{(*server)->port()});
      json.Field("token", (*server)->token());
      json.EndObject();
    } else {
      env.out << (*server)->url();
    }
    env.out << '\n' << std::flush;
  }
  while (!env.cancelled()) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  return kExitFine;
}

}  // namespace

int RunServe(const Words& words, Env& env) {
  return RunFilled<ServeArgs>(words, env, RunServe);
}

}  // namespace holdfast::cli
