#include "steps/referred_steps.h"

#include <algorithm>
#include <filesystem>
#include <set>
#include <utility>

#include "base/status_macros.h"
#include "checkpoint/check/view_sources.h"
#include "checkpoint/format/directory_names.h"
#include "place/directory_ops.h"
#include "place/look.h"

namespace holdfast {
namespace {

namespace fs = std::filesystem;

class ReferenceFinder {
 public:
  explicit ReferenceFinder(const Place& root) : root_(root) {
    std::error_code error;
    if (!root.is_remote()) real_root_ = fs::canonical(root.path(), error);
  }

  // The directories of the root that the step refers to, and as what.
  Result<std::map<std::string, std::string>> Find(const std::string& step) {
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
      if (name == kBaseFile) HF_RETURN_IF_ERROR(AddBase(step));
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
    if (std::ranges::find(names, kBaseFile) != names.end()) {
      HF_RETURN_IF_ERROR(AddBase(item));
    }
    if (root_.is_remote()) return Status();  // no links there
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

  // The step that a delta was made from.
  Status AddBase(const Place& step) {
    const Result<Bytes> text = step.OpenStore()->Read(kBaseFile);
    if (text.status().code() == StatusCode::kNotFound) return Status();
    if (!text.ok()) return text.status();
    const std::string base(text->view());
    const Place path(base);
    if (base.find('/') == std::string::npos) {
      found_.emplace(base, "the delta");
    } else if (path.parent().path() == root_.path()) {
      found_.emplace(path.name(), "the delta");
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
    found_.emplace(inside.begin()->string(), "the view");
  }

  const Place root_;
  fs::path real_root_;
  std::map<std::string, std::string> found_;
};

}  // namespace

Result<std::map<std::string, std::string>> NeededByOthers(
    const Place& root, const std::vector<std::string>& names) {
  std::map<std::string, std::string> needed;
  if (names.empty()) return needed;
  const LookScope look(root);  // in a bucket one list tells of all steps
  HF_ASSIGN_OR_RETURN(const std::vector<std::string> all,
                      ListDirectory(look.place()));
  std::set<std::string> going(names.begin(), names.end());
  std::vector<std::string> staying;  // that nobody has looked into
  for (const std::string& name : all) {
    if (!going.contains(name)) staying.push_back(name);
  }
  ReferenceFinder finder(look.place());
  while (!staying.empty()) {
    const std::string step = std::move(staying.back());
    staying.pop_back();
    HF_ASSIGN_OR_RETURN(const auto targets, finder.Find(step));
    for (const auto& [target, as_what] : targets) {
      if (going.erase(target) == 0) continue;
      needed.emplace(target, as_what + " " + step);
      staying.push_back(target);
    }
  }
  return needed;
}

}  // namespace holdfast
