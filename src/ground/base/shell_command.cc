#include "ground/base/shell_command.h"

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "ground/base/status_macros.h"

namespace holdfast {
namespace {

bool IsShellSpace(char c) { return c == ' ' || c == '\t' || c == '\n'; }

// Returns true if the path has only letters, digits, non-ASCII characters, and
// marks that have no special meaning in a shell or in a program's string.
bool MeansItself(std::string_view path) {
  constexpr std::string_view kMarks = "/._-+=:,@% ";
  return std::ranges::all_of(path, [&](char c) {
    const bool is_word = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                         (c >= '0' && c <= '9') || (c & 0x80) != 0;
    return is_word || kMarks.find(c) != kMarks.npos;
  });
}

// Follows a command's quoting as the shell does.
class ShellScanner {
 public:
  ShellScanner(std::string_view command, std::string_view placeholder)
      : command_(command), placeholder_(placeholder) {}

  // Returns the text up to the next placeholder and moves past that
  // placeholder. Sets `found` to whether there was one.
  std::string_view Next(bool& found) {
    const size_t begin = at_;
    while (at_ < command_.size()) {
      if (!is_comment_ && command_.substr(at_).starts_with(placeholder_)) {
        found = true;
        at_ += placeholder_.size();
        return command_.substr(begin, at_ - placeholder_.size() - begin);
      }
      Step();
    }
    found = false;
    return command_.substr(begin);
  }

  bool is_in_single() const { return Top() == '\''; }
  bool is_in_double() const { return Top() == '"'; }
  // Returns whether the double quotes around the last placeholder contain other
  // words.
  bool is_among_words() const {
    const std::string_view before =
        command_.substr(quote_at_, at_ - placeholder_.size() - quote_at_);
    const std::string_view after = command_.substr(at_);
    return std::ranges::any_of(before, IsShellSpace) ||
           std::ranges::any_of(after.substr(0, after.find('"')), IsShellSpace);
  }

 private:
  char Top() const { return open_.empty() ? ' ' : open_.back(); }

  // Skips one character, or two if the first one quotes the second.
  void Step() {
    const char c = command_[at_++];
    if (is_comment_) {
      is_comment_ = c != '\n';
    } else if (is_in_single()) {
      if (c == '\'') open_.pop_back();
    } else if (c == '\\') {
      at_ = std::min(at_ + 1, command_.size());
    } else if (c == '$' && at_ < command_.size() && command_[at_] == '(') {
      open_ += '(';
      ++at_;
    } else if (is_in_double()) {
      if (c == '"') open_.pop_back();
    } else {
      StepUnquoted(c);
    }
  }

  void StepUnquoted(char c) {
    if (c == '"') quote_at_ = at_;
    if (c == '"' || c == '\'' || (c == '(' && Top() == '(')) open_ += c;
    if (c == ')' && Top() == '(') open_.pop_back();
    is_comment_ = c == '#' && (at_ == 1 || IsShellSpace(command_[at_ - 2]) ||
                               command_[at_ - 2] == ';');
  }

  const std::string_view command_;
  const std::string_view placeholder_;
  size_t at_ = 0;
  size_t quote_at_ = 0;  // after the last double quote outside other quotes
  bool is_comment_ = false;
  std::string open_;  // quotes and $( still open, outermost first
};

}  // namespace

Result<std::string> ShellText(std::string_view command,
                              std::string_view placeholder,
                              std::string_view variable,
                              std::string_view path) {
  ShellScanner scanner(command, placeholder);
  const std::string value = "${" + std::string(variable) + "}";
  std::string text;
  for (bool found = true; found;) {
    text += scanner.Next(found);
    if (!found) break;
    const bool is_text = scanner.is_in_single() ||
                         (scanner.is_in_double() && scanner.is_among_words());
    if (is_text && !MeansItself(path)) {
      return FailedPreconditionError(
          std::string(placeholder) +
          " is in quotes, where it is text of another program, and the path " +
          std::string(path) +
          " has characters that may be commands there: write " +
          std::string(placeholder) +
          " outside quotes, as an argument, or let "
          "the program read the environment variable " +
          std::string(variable));
    }
    if (scanner.is_in_single()) {
      text += path;
    } else {
      text += scanner.is_in_double() ? value : '"' + value + '"';
    }
  }
  return text;
}

Result<int> RunShell(
    const std::string& text,
    const std::vector<std::pair<std::string, std::string>>& variables) {
  std::vector<std::string> rows;
  for (const auto& [name, value] : variables)
    rows.push_back(name + "=" + value);
  std::vector<char*> environment;
  for (char** row = environ; *row != nullptr; ++row) {
    const bool is_ours = std::ranges::any_of(variables, [&](const auto& pair) {
      return std::string_view(*row).starts_with(pair.first + "=");
    });
    if (!is_ours) environment.push_back(*row);
  }
  for (std::string& row : rows) environment.push_back(row.data());
  environment.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, STDERR_FILENO, STDOUT_FILENO);
  const char* words[] = {"sh", "-c", text.c_str(), nullptr};
  pid_t child = 0;
  const int error =
      ::posix_spawn(&child, "/bin/sh", &actions, nullptr,
                    const_cast<char**>(words), environment.data());
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) {
    return UnavailableError(std::string("no shell can be started: ") +
                            std::strerror(error));
  }
  int status = 0;
  while (::waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) {
      return UnavailableError(std::string("cannot wait for the shell: ") +
                              std::strerror(errno));
    }
  }
  return status;
}

}  // namespace holdfast
