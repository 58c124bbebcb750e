#include "crash/judge.h"

#include <algorithm>
#include <functional>
#include <string_view>

namespace holdfast {
namespace {

// Returns the name of a step's content in the scenario, or what is wrong with
// it.
using ContentFn = std::function<std::string(const std::string& step)>;

bool IsAllowed(const StepFate& fate, const std::string& content,
               Moment moment) {
  const bool may_be_before =
      moment == Moment::kResumed ? fate.may_stay : moment != Moment::kCompleted;
  return (may_be_before && content == fate.before) ||
         (moment != Moment::kBefore && content == fate.after);
}

std::string LoadedContent(const Scenario& scenario, const std::string& path) {
  LoadOptions options;
  options.run.threads = 1;
  const auto loaded = Load(path, options);
  if (!loaded.ok()) return "unreadable: " + loaded.status().ToString();
  for (const auto& [name, tree] : scenario.contents) {
    if (loaded->tree == tree) return name;
  }
  return "a tree that nobody saved";
}

struct Judgement {
  std::string wrong;    // a listed step that is not what it may be
  std::string missing;  // a step that should be listed but is not
  std::string found;    // "1=old 2=new "
};

Judgement JudgeSteps(const Scenario& scenario, const std::string& root,
                     Moment moment, const ContentFn& content_of) {
  Judgement judgement;
  const auto steps = ListSteps(root);
  if (!steps.ok() && steps.status().code() != StatusCode::kNotFound) {
    judgement.wrong = "no list of steps: " + steps.status().ToString();
    return judgement;
  }
  std::map<std::string, std::string> listed;
  for (size_t i = 0; steps.ok() && i < steps->size(); ++i) {
    const StepInfo& step = (*steps)[i];
    if (!step.committed) continue;
    const std::string content = content_of(step.name);
    listed[step.name] = content;
    judgement.found += step.name + "=" + content + " ";
    if (!scenario.steps.contains(step.name)) {
      judgement.wrong += "step " + step.name + " is listed; ";
    }
  }
  for (const auto& [name, fate] : scenario.steps) {
    if (fate.is_beside) listed[name] = content_of(name);
    const std::string content = listed[name];
    if (IsAllowed(fate, content, moment)) continue;
    (content.empty() ? judgement.missing : judgement.wrong) +=
        "step " + name + " is " + (content.empty() ? "not listed" : content) +
        ", want " + (fate.before.empty() ? "nothing" : fate.before) + " or " +
        (fate.after.empty() ? "nothing" : fate.after) + "; ";
  }
  return judgement;
}

// Returns the last step's name: "2" of "1=old 2=new ".
std::string LastName(const std::string& found) {
  const size_t end = found.rfind('=');
  if (end == std::string::npos) return "";
  const size_t space = found.rfind(' ', end);
  const size_t start = space == std::string::npos ? 0 : space + 1;
  return found.substr(start, end - start);
}

// Returns the step that Open chooses at the root, or the error code.
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

// Whether a checkpoint has a temporary name, which readers change back.
bool HasPutAside(const Files& files) {
  return std::any_of(files.begin(), files.end(), [](const auto& file) {
    return file.first.find(".holdfast-replaced") != std::string::npos ||
           file.first.find(".holdfast-moved") != std::string::npos;
  });
}

}  // namespace

std::string JudgeRoot(const Scenario& scenario, const std::string& root,
                      Moment moment) {
  const ContentFn content_of = [&](const std::string& step) {
    return LoadedContent(scenario, root + "/" + step);
  };
  Judgement judgement = JudgeSteps(scenario, root, moment, content_of);
  if (judgement.wrong.empty() && !judgement.missing.empty() &&
      scenario.recover) {
    const Status recovered = scenario.recover(root);
    if (!recovered.ok()) return "no recovery: " + recovered.ToString();
    judgement = JudgeSteps(scenario, root, moment, content_of);
  }
  return judgement.wrong + judgement.missing;
}

std::string StateJudge::ContentOf(const std::string& step, const Files& files) {
  const auto [it, is_new] =
      contents_.try_emplace(FingerprintOf(files, step + "/"), "");
  if (is_new) {
    it->second = LoadedContent(scenario_, mirror_.path() + "/" + step);
  }
  return it->second;
}

// Opens the root only once for each set of step states and names, because the
// step that Open chooses depends on nothing else.
std::string StateJudge::CheckNewest(const std::string& found,
                                    const Files& files) {
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

std::string StateJudge::Check(const Files& recorded, Moment moment) {
  const Status shown = mirror_.Show(recorded);
  if (!shown.ok()) return shown.ToString();
  const bool may_change = HasPutAside(recorded);
  if (may_change) static_cast<void>(ListSteps(mirror_.path()));
  const Files files = may_change ? mirror_.Reload() : recorded;
  const auto judge = [&](const Files& present) {
    return JudgeSteps(
        scenario_, mirror_.path(), moment,
        [&](const std::string& step) { return ContentOf(step, present); });
  };
  Judgement judgement = judge(files);
  if (!judgement.wrong.empty()) return judgement.wrong;
  if (judgement.missing.empty()) return CheckNewest(judgement.found, files);
  if (!scenario_.recover || moment == Moment::kCompleted) {
    return judgement.missing;
  }
  const Status recovered = scenario_.recover(mirror_.path());
  judgement = judge(mirror_.Reload());
  if (recovered.ok()) return judgement.wrong + judgement.missing;
  return "no recovery: " + recovered.ToString();
}

}  // namespace holdfast
