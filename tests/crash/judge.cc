#include "crash/judge.h"

#include <functional>
#include <string_view>

namespace holdfast {
namespace {

// Content of a step -> its name in the scenario, or what is wrong with it.
using ContentFn = std::function<std::string(const std::string& step)>;

bool IsAllowed(const StepFate& fate, const std::string& content,
               Moment moment) {
  return (moment != Moment::kCompleted && content == fate.before) ||
         (moment != Moment::kBefore && content == fate.after);
}

std::string LoadedContent(const Scenario& scenario, const std::string& path) {
  LoadOptions options;
  options.run.thread_count = 1;
  const auto loaded = Load(path, options);
  if (!loaded.ok()) return "unreadable: " + loaded.status().ToString();
  for (const auto& [name, tree] : scenario.contents) {
    if (loaded->tree == tree) return name;
  }
  return "a tree that nobody saved";
}

std::string JudgeSteps(const Scenario& scenario, const std::string& root,
                       Moment moment, const ContentFn& content_of,
                       std::string* found) {
  std::map<std::string, std::string> listed;
  const auto steps = ListSteps(root);
  if (!steps.ok() && steps.status().code() != StatusCode::kNotFound) {
    return "the steps cannot be listed: " + steps.status().ToString();
  }
  if (steps.ok()) {
    for (const StepInfo& step : *steps) {
      if (step.committed) listed[step.name] = content_of(step.name);
    }
  }
  std::string wrong;
  for (const auto& [name, content] : listed) {
    if (found != nullptr) *found += name + "=" + content + " ";
    if (!scenario.steps.contains(name)) {
      wrong += "step " + name + " is listed; ";
    }
  }
  for (const auto& [name, fate] : scenario.steps) {
    const auto it = listed.find(name);
    const std::string content = it == listed.end() ? "" : it->second;
    if (IsAllowed(fate, content, moment)) continue;
    wrong += "step " + name + " is " +
             (content.empty() ? "not listed" : content) + ", want " +
             (fate.before.empty() ? "nothing" : fate.before) + " or " +
             (fate.after.empty() ? "nothing" : fate.after) + "; ";
  }
  return wrong;
}

// "2" of "1=old 2=new ".
std::string LastName(const std::string& found) {
  const size_t end = found.rfind('=');
  if (end == std::string::npos) return "";
  const size_t space = found.rfind(' ', end);
  const size_t start = space == std::string::npos ? 0 : space + 1;
  return found.substr(start, end - start);
}

// The newest step that Open takes by itself, or the error's code.
std::string NewestOf(const std::string& root) {
  OpenOptions options;
  options.stored_sizes = false;
  const auto opened = Open(root, options);
  if (!opened.ok()) {
    return opened.status().code() == StatusCode::kNotFound
               ? ""
               : opened.status().ToString();
  }
  return (*opened)->info().path.substr(root.size() + 1);
}

std::pair<uint64_t, uint64_t> FingerprintOf(const std::string& step,
                                            const Files& files) {
  const std::hash<std::string_view> hash;
  uint64_t first = hash(step), second = step.size();
  const std::string prefix = step + "/";
  for (auto it = files.lower_bound(prefix);
       it != files.end() && it->first.starts_with(prefix); ++it) {
    const uint64_t content = it->second ? hash(*it->second) : 1;
    first = first * 0x9E3779B97F4A7C15 + (hash(it->first) ^ content * 31);
    second = (second ^ content) * 0xBF58476D1CE4E5B9 + hash(it->first);
  }
  return {first, second};
}

}  // namespace

std::string JudgeRoot(const Scenario& scenario, const std::string& root,
                      Moment moment, std::string* found) {
  return JudgeSteps(
      scenario, root, moment,
      [&](const std::string& step) {
        return LoadedContent(scenario, root + "/" + step);
      },
      found);
}

std::string StateJudge::ContentOf(const std::string& step, const Files& files) {
  const auto [it, is_new] =
      contents_.try_emplace(FingerprintOf(step, files), "");
  if (is_new)
    it->second = LoadedContent(scenario_, mirror_.path() + "/" + step);
  return it->second;
}

std::string StateJudge::Check(const Files& files, Moment moment) {
  mirror_.Show(files);
  std::string found;
  std::string wrong = JudgeSteps(
      scenario_, mirror_.path(), moment,
      [&](const std::string& step) { return ContentOf(step, files); }, &found);
  if (!wrong.empty()) return wrong;
  // What Open takes follows from what is listed, and from the other names.
  std::string names = found;
  for (const auto& [path, bytes] : files) {
    if (path.find('/') == std::string::npos) names += path + '\0';
  }
  const auto [it, is_new] = newest_.try_emplace(names, "");
  if (is_new) it->second = NewestOf(mirror_.path());
  const std::string want = LastName(found);
  if (it->second == want) return "";
  return "the root opens as \"" + it->second + "\", want \"" + want + '"';
}

}  // namespace holdfast
