#include "ground/base/shell_command.h"

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <string>

namespace holdfast {
namespace {

// Returns whether `command`, run by a shell, passes `want` as the only
// argument.
bool Passes(const std::string& command, const std::string& path,
            const std::string& want) {
  const auto text = ShellText(command, "{}", "STEP", path);
  EXPECT_TRUE(text.ok()) << text.status().ToString();
  if (!text.ok()) return false;
  const auto status =
      RunShell("f() { test $# = 1 && test \"$1\" = \"$WANT\"; }; " + *text,
               {{"STEP", path}, {"WANT", want}});
  return status.ok() && WIFEXITED(*status) && WEXITSTATUS(*status) == 0;
}

constexpr const char* kPaths[] = {
    "/run/7",           "/run/a b_7",         "/run/it's_7",
    "/run/$(exit 9)_7", "/run/`exit`_7",      "/run/\"; exit 9; \"_7",
    "/run/*_7",         "/run/a\nexit 9\n_7", "/run/\\_7",
    "/run/${HOME}_7",   "/run/{}_7",          "-f"};

TEST(ShellCommandTest, APathIsOneArgument) {
  for (const std::string path : kPaths) {
    EXPECT_TRUE(Passes("f {}", path, path)) << path;
    EXPECT_TRUE(Passes("f \"{}\"", path, path)) << path;
    EXPECT_TRUE(Passes("f \"{}/x\"", path, path + "/x")) << path;
    EXPECT_TRUE(Passes("f {}/x", path, path + "/x")) << path;
    EXPECT_TRUE(Passes("f \"$(printf %s {})\"", path, path)) << path;
    EXPECT_TRUE(Passes("f \"$(printf %s \"{}\")\"", path, path)) << path;
    EXPECT_TRUE(Passes("# it's a {}\nf {}", path, path)) << path;
    EXPECT_TRUE(Passes("f \\\"{}\\\"", path, '"' + path + '"')) << path;
  }
}

TEST(ShellCommandTest, TextOfAnotherProgramIsOnlyWhatMeansItself) {
  EXPECT_TRUE(Passes("f '{}'", "/run/7", "/run/7"));
  EXPECT_TRUE(Passes("sh -c 'test {} = /run/7'", "/run/7", "")) << "plain";
  EXPECT_TRUE(Passes("sh -c \"test {} = /run/7\"", "/run/7", "")) << "plain";
  for (const std::string command :
       {"sh -c 'ls {}'", "sh -c \"ls {}\"", "python3 -c 'f(\"{}\")'",
        "echo \"{} x\"", "f \"a b\" \"c {}\""}) {
    const auto text = ShellText(command, "{}", "STEP", "/run/$(exit 9)_7");
    EXPECT_EQ(text.status().code(), StatusCode::kFailedPrecondition) << command;
    EXPECT_NE(text.status().message().find("variable STEP"), std::string::npos);
  }
}

TEST(ShellCommandTest, TheTextDoesNotHoldThePath) {
  const auto text = ShellText("f {} \"{}\"", "{}", "STEP", "/run/7");
  EXPECT_EQ(*text, "f \"${STEP}\" \"${STEP}\"");
  EXPECT_EQ(*ShellText("f x", "{}", "STEP", "/run/7"), "f x");
  EXPECT_EQ(*ShellText("'", "{}", "STEP", "/run/7"), "'");
  EXPECT_EQ(*ShellText("\\", "{}", "STEP", "/run/7"), "\\");
  EXPECT_EQ(*ShellText("{", "{}", "STEP", "/run/7"), "{");
}

}  // namespace
}  // namespace holdfast
