#include "steps/referred_steps.h"

#include <algorithm>
#include <filesystem>
#include <set>

#include "checkpoint/format/directory_names.h"
#include "place/directory_ops.h"

namespace holdfast {
namespace {

namespace fs = std::filesystem;

// Where files of formats other than safetensors lie in a view.
constexpr std::string_view kSourcesDirectory = "sources";

class LinkFinder {
 public:
  explicit LinkFinder(const fs::path& root) {
    std::error_code error;
    root_ = fs::canonical(root, error);
  }

  // The directories of the root that links in the step lead to.
  std::set<std::string> Find(const std::string& step) {
    found_.clear();
    LookInto(root_ / step, /*is_step=*/true);
    found_.erase(step);
    return std::move(found_);
  }

 private:
  // A view's links lie in its items, of which only those with a list of their
  // own are views.
  void LookInto(const fs::path& item, bool is_step) {
    std::error_code error;
    const bool is_listed = fs::exists(item / kDigestFile, error);
    if (!is_listed && !is_step) return;
    for (const auto& entry : fs::directory_iterator(item, error)) {
      std::error_code ignored;
      if (entry.is_symlink(ignored)) {
        Add(entry.path());
      } else if (is_step && entry.is_directory(ignored)) {
        LookInto(entry.path(), /*is_step=*/false);
      }
    }
    for (const auto& entry :
         fs::recursive_directory_iterator(item / kSourcesDirectory, error)) {
      std::error_code ignored;
      if (entry.is_symlink(ignored)) Add(entry.path());
    }
  }

  void Add(const fs::path& link) {
    std::error_code error;
    const fs::path target = fs::weakly_canonical(
        link.parent_path() / fs::read_symlink(link, error), error);
    if (error) return;
    const fs::path inside = target.lexically_relative(root_);
    if (inside.empty() || *inside.begin() == "..") return;
    found_.insert(inside.begin()->string());
  }

  fs::path root_;
  std::set<std::string> found_;
};

}  // namespace

std::map<std::string, std::vector<std::string>> ReferencesOfSteps(
    const Place& root, const std::vector<std::string>& names) {
  std::map<std::string, std::vector<std::string>> references;
  if (root.is_remote()) return references;
  LinkFinder finder(root.path());
  for (const std::string& name : names) {
    const std::set<std::string> found = finder.Find(name);
    if (!found.empty()) references[name].assign(found.begin(), found.end());
  }
  return references;
}

std::vector<std::string> WithoutReferred(const Place& root,
                                         std::vector<std::string> names) {
  if (root.is_remote() || names.empty()) return names;
  const auto all = ListDirectory(root);
  if (!all.ok()) return names;
  const auto references = ReferencesOfSteps(root, *all);
  const auto goes = [&](const std::string& name) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  bool has_changed = !references.empty();
  while (has_changed) {
    has_changed = false;
    for (const auto& [from, targets] : references) {
      if (goes(from)) continue;
      for (const std::string& target : targets) {
        has_changed |= std::erase(names, target) != 0;
      }
    }
  }
  return names;
}

}  // namespace holdfast
