#include "tools/prove/listing.h"

#include <filesystem>
#include <vector>

#include "ground/base/sha256.h"
#include "holdfast/checkpoint.h"
#include "holdfast/steps/steps.h"

namespace holdfast {
namespace {

namespace fs = std::filesystem;

Result<std::string> DigestOf(const Checkpoint& checkpoint) {
  std::string text = checkpoint.info().custom_metadata;
  const auto& leaves = checkpoint.leaves();
  for (size_t i = 0; i < leaves.size(); ++i) {
    text += '\n' + leaves[i].name + ' ';
    // A leaf that needs the user's own handler is not damaged.
    if (leaves[i].problem.code() == StatusCode::kFailedPrecondition) continue;
    const auto digest = DigestLeaf(checkpoint, i);
    if (!digest.ok()) return digest.status().WithContext(leaves[i].name);
    text += *digest;
  }
  return text;
}

// Removes the scratch directory's name from messages.
std::string Without(std::string text, const std::string& root) {
  for (size_t at; (at = text.find(root)) != text.npos;) {
    text.erase(at, root.size() + (text.substr(at + root.size(), 1) == "/"));
  }
  return text;
}

Content ContentAt(const std::string& path, const std::string& root) {
  const auto opened = Open(path);
  const auto digest = opened.ok() ? DigestOf(**opened) : opened.status();
  if (digest.ok()) {
    Sha256 sum;
    sum.Update(*digest);
    return {sum.HexDigest(), ""};
  }
  return {"", Without(digest.status().ToString(), root)};
}

void AddSteps(const std::string& directory, const std::string& prefix,
              const std::string& root, Listing& listing) {
  const auto steps = ScanSteps(directory);
  if (!steps.ok()) return;
  for (const ScannedStep& step : *steps) {
    listing[prefix + step.name] = ContentAt(directory + "/" + step.name, root);
  }
}

bool IsThere(const Content& content, const std::string& path) {
  // Returns true unless the path is missing, or is a directory in which nothing
  // looks like a checkpoint.
  std::error_code ignored;
  return fs::exists(path, ignored) &&
         (content.problem.empty() || !fs::is_directory(path, ignored) ||
          !content.problem.starts_with("NOT_FOUND"));
}

bool HasRootOfSteps(const std::string& root) {
  std::error_code ignored;
  for (fs::directory_iterator it(root, ignored), end; it != end;
       it.increment(ignored)) {
    if (IsRootOfSteps(it->path())) return true;
  }
  return false;
}

}  // namespace

Places FindPlaces(const std::string& root) {
  Places places;
  std::set<std::string> steps;
  if (IsRootOfSteps(root)) {
    places.roots.insert("");
    const auto scanned = ScanSteps(root, {.include_uncommitted = true});
    for (const ScannedStep& step :
         scanned.ok() ? *scanned : std::vector<ScannedStep>()) {
      steps.insert(step.name);
    }
  } else {
    // Check for a root first: a root of steps may look like a composite, but a
    // composite does not look like a root.
    places.is_itself =
        !HasRootOfSteps(root) && ContentAt(root, root).problem.empty();
  }
  std::error_code ignored;
  for (fs::directory_iterator it(root, ignored), end;
       !places.is_itself && it != end; it.increment(ignored)) {
    const std::string name = it->path().filename();
    if (steps.contains(name) || name.starts_with('.')) continue;
    if (IsRootOfSteps(it->path())) {
      places.roots.insert(name + "/");
    } else if (ContentAt(it->path(), root).problem.empty()) {
      places.entries.insert(name);
    }
  }
  return places;
}

Listing ListCheckpoints(const std::string& root, const Places& places) {
  Listing listing;
  for (const std::string& prefix : places.roots) {
    const std::string path = root + "/" + prefix;
    AddSteps(path.substr(0, path.size() - 1), prefix, root, listing);
  }
  std::set<std::string> names = places.entries;
  if (places.is_itself) names.insert(".");
  for (const std::string& name : names) {
    const std::string path = name == "." ? root : root + "/" + name;
    Content content = ContentAt(path, root);
    if (IsThere(content, path)) listing[name] = std::move(content);
  }
  return listing;
}

Result<std::string> StateLister::Show(const Files& files) {
  const Status shown = mirror_.Show(files);
  if (!shown.ok()) return shown;
  return mirror_.path();
}

Result<Listing> StateLister::List(const Files& files, const Places& places) {
  const auto [it, is_new] = listings_.try_emplace(FingerprintOf(files, ""));
  if (is_new) {
    const auto path = Show(files);
    if (!path.ok()) return path.status();
    it->second = ListCheckpoints(*path, places);
  }
  return it->second;
}

}  // namespace holdfast
