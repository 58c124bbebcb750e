// Compares the output in terminals of several widths with files in golden/.
// HOLDFAST_WRITE_GOLDEN=1 writes them.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "cli/units.h"
#include "tests/cli/run_words.h"

namespace holdfast::testing {

// Runs a command as on a terminal without colors.
inline Ran RunInTerminal(const std::vector<std::string>& words, int columns) {
  return RunWords(words, [columns](cli::Env& env) {
    env.out_is_terminal = true;
    env.no_color = true;
    env.columns = columns;
  });
}

// Returns each command with its output. Removes every occurrence of `hidden`, a
// path that differs between machines.
inline std::string TerminalText(
    const std::vector<std::vector<std::string>>& commands, int columns,
    const std::string& hidden = "") {
  std::string all;
  for (const std::vector<std::string>& words : commands) {
    const Ran ran = RunInTerminal(words, columns);
    all += "$ holdfast";
    for (const std::string& word : words) all += " " + word;
    all += "\n" + ran.out + ran.err;
    if (ran.code != 0) all += "exit status " + std::to_string(ran.code) + "\n";
    all += "\n";
  }
  for (size_t at = 0; !hidden.empty() && (at = all.find(hidden)) != all.npos;) {
    all.erase(at, hidden.size());
  }
  return all;
}

inline void CompareWithGolden(const std::string& name,
                              const std::string& text) {
  const std::string path =
      HOLDFAST_SOURCE_DIR "/tests/cli/golden/" + name + ".txt";
  if (std::getenv("HOLDFAST_WRITE_GOLDEN") != nullptr) {
    std::ofstream(path) << text;
  }
  std::ostringstream golden;
  golden << std::ifstream(path).rdbuf();
  EXPECT_EQ(text, golden.str()) << path;
}

// Expects every line to fit the terminal, except lines that begin with `$` or
// with one of `free_lines`.
inline void ExpectFits(const std::string& text, int columns,
                       const std::vector<std::string>& free_lines) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    bool is_free = line.starts_with("$");
    for (const std::string& start : free_lines) {
      is_free = is_free || line.starts_with(start);
    }
    if (is_free) continue;
    EXPECT_LE(cli::TextWidth(line), static_cast<size_t>(columns)) << line;
  }
}

}  // namespace holdfast::testing
