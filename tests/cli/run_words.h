// Runs a command line against the fake library and captures its output.
#pragma once

#include <atomic>
#include <functional>
#include <sstream>
#include <string>
#include <vector>

#include "cli/dispatch.h"

namespace holdfast::testing {

struct Ran {
  int code = -1;
  std::string out;
  std::string err;
};

// Runs the command line `words`; returns its exit code and output. `adjust` may
// change the Env before the run.
inline Ran RunWords(const std::vector<std::string>& words,
                    const std::function<void(cli::Env&)>& adjust = {}) {
  std::ostringstream out, err;
  cli::Env env{.out = out, .err = err};
  if (adjust) adjust(env);
  Ran ran;
  ran.code = cli::RunCommand(words, env);
  ran.out = out.str();
  ran.err = err.str();
  return ran;
}

}  // namespace holdfast::testing
