#include "steps/referred_steps.h"

#include <algorithm>
#include <filesystem>
#include <set>
#include <utility>

#include "base/status_macros.h"
#include "checkpoint/check/view_sources.h"
#include "checkpoint/format/directory_names.h"
#include "place/directory_ops.h"

namespace holdfast {
namespace {

namespace fs = std::filesystem;

class LinkFinder {
 public:
  explicit LinkFinder(const std::string& root) : root_(root) {
    std::error_code error;
    real_root_ = fs::canonical(root, error);
  }

  // The directories of the root that links in the step lead to.
  Result<std::set<std::string>> Find(const std::string& step) {
    found_.clear();
    HF_RETURN_IF_ERROR(LookIntoStep(root_ / step));
    found_.erase(step);
    return std::move(found_);
  }

 private:
  // A view's links lie in its items, of which only those with a list of their
  // own are views.
  Status LookIntoStep(const Place& step) {
    HF_ASSIGN_OR_RETURN(const std::vector<std::string> names, Names(step));
    for (const std::string& name : names) {
      HF_ASSIGN_OR_RETURN(const PathKind kind, GetPathKind(step / name));
      if (kind == PathKind::kSymlink) Add(step / name);
      if (kind != PathKind::kDirectory) continue;
      HF_RETURN_IF_ERROR(name == kSourcesDirectory ? LookBelow(step / name)
                                                   : LookIntoItem(step / name));
    }
    return Status();
  }

  Status LookIntoItem(const Place& item) {
    HF_ASSIGN_OR_RETURN(const std::vector<std::string> names, Names(item));
    const bool is_listed =
        std::find(names.begin(), names.end(), kDigestFile) != names.end();
    if (!is_listed) return Status();
    for (const std::string& name : names) {
      HF_ASSIGN_OR_RETURN(const PathKind kind, GetPathKind(item / name));
      if (kind == PathKind::kSymlink) Add(item / name);
    }
    return LookBelow(item / kSourcesDirectory);
  }

  Status LookBelow(const Place& directory) {
    HF_ASSIGN_OR_RETURN(const std::vector<std::string> names, Names(directory));
    for (const std::string& name : names) {
      HF_ASSIGN_OR_RETURN(const PathKind kind, GetPathKind(directory / name));
      if (kind == PathKind::kSymlink) Add(directory / name);
      if (kind == PathKind::kDirectory) {
        HF_RETURN_IF_ERROR(LookBelow(directory / name));
      }
    }
    return Status();
  }

  // None of what is no directory, or has gone meanwhile.
  static Result<std::vector<std::string>> Names(const Place& directory) {
    HF_ASSIGN_OR_RETURN(const PathKind kind, GetPathKind(directory));
    if (kind != PathKind::kDirectory) return std::vector<std::string>();
    Result<std::vector<std::string>> names = ListDirectory(directory);
    if (names.status().code() != StatusCode::kNotFound) return names;
    return std::vector<std::string>();
  }

  void Add(const Place& place) {
    const fs::path link = place.path();
    std::error_code error;
    const fs::path target = fs::weakly_canonical(
        link.parent_path() / fs::read_symlink(link, error), error);
    if (error) return;
    const fs::path inside = target.lexically_relative(real_root_);
    if (inside.empty() || *inside.begin() == "..") return;
    found_.insert(inside.begin()->string());
  }

  const Place root_;
  fs::path real_root_;
  std::set<std::string> found_;
};

}  // namespace

Result<std::map<std::string, std::string>> NeededByViews(
    const Place& root, const std::vector<std::string>& names) {
  std::map<std::string, std::string> needed;
  if (root.is_remote() || names.empty()) return needed;
  HF_ASSIGN_OR_RETURN(const std::vector<std::string> all, ListDirectory(root));
  std::set<std::string> going(names.begin(), names.end());
  std::vector<std::string> staying;  // that nobody has looked into
  for (const std::string& name : all) {
    if (!going.contains(name)) staying.push_back(name);
  }
  LinkFinder finder(root.path());
  while (!staying.empty()) {
    const std::string view = std::move(staying.back());
    staying.pop_back();
    HF_ASSIGN_OR_RETURN(const std::set<std::string> targets, finder.Find(view));
    for (const std::string& target : targets) {
      if (going.erase(target) == 0) continue;
      needed.emplace(target, view);
      staying.push_back(target);
    }
  }
  return needed;
}

}  // namespace holdfast
