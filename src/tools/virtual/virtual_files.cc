#include "ground/base/xxh64.h"
#include "holdfast/tools/virtual_files.h"

#include <array>
#include <chrono>
#include <functional>
#include <mutex>
#include <utility>

#include "ground/base/no_throw.h"
#include "ground/base/status_macros.h"
#include "ground/base/text.h"
#include "tools/virtual/composed_files.h"
#include "tools/virtual/file_tree.h"
#include "tools/virtual/leaf_bytes.h"
#include "tools/virtual/stored_files.h"
#include "tools/virtual/zarr_files.h"

namespace holdfast {
namespace {

using MakeTreeFn =
    Result<std::unique_ptr<FileTree>> (*)(std::shared_ptr<const LeafBytes>);

struct VirtualFormat {
  std::string_view name;
  MakeTreeFn make;
};
constexpr std::array kFormats = {
    VirtualFormat{"safetensors", MakeSafetensorsFiles},
    VirtualFormat{"npz", MakeNpzFiles},
    VirtualFormat{"zarr", MakeZarrFiles},
};

constexpr std::string_view kFormatsName = "as";
constexpr std::string_view kFilesName = "files";

// Removes and returns the first part of a name.
std::string_view TakePart(std::string_view& name) {
  const size_t slash = name.find('/');
  const std::string_view part = name.substr(0, slash);
  name = slash == std::string_view::npos ? "" : name.substr(slash + 1);
  return part;
}

// The files of one format, laid out on demand. A failure is not kept, because
// the cause may be the network.
struct LazyTree {
  std::mutex mutex;
  std::unique_ptr<FileTree> tree;
};

class CheckpointFiles final : public VirtualFiles {
 public:
  CheckpointFiles(std::shared_ptr<const Checkpoint> checkpoint,
                  const VirtualFilesOptions& options)
      : leaves_(std::make_shared<LeafBytes>(std::move(checkpoint), options.run,
                                            options.kept_bytes_max)) {}

  Status ListFiles() {
    HF_ASSIGN_OR_RETURN(stored_, ListStoredFiles(checkpoint().info()));
    return Status();
  }

  bool MayHaveMovedSince(std::chrono::system_clock::time_point time) const {
    return stored_->MayHaveMovedSince(time);
  }

  const Checkpoint& checkpoint() const override {
    return leaves_->checkpoint();
  }

  Result<VirtualEntry> Stat(std::string_view name) const override {
    return CatchBadAlloc([&]() -> Result<VirtualEntry> {
      const VirtualEntry directory{std::string(name), true, 0};
      if (name.empty() || name == kFormatsName) return directory;
      HF_RETURN_IF_ERROR(stored_->CheckUnchanged(/*looks_now=*/false));
      HF_ASSIGN_OR_RETURN(const Found found, Find(name));
      HF_ASSIGN_OR_RETURN(VirtualEntry entry, found.tree->Stat(found.rest));
      entry.name = name;
      return entry;
    });
  }

  Result<std::vector<VirtualEntry>> List(
      std::string_view directory) const override {
    return CatchBadAlloc([&]() -> Result<std::vector<VirtualEntry>> {
      std::vector<VirtualEntry> entries;
      if (directory.empty()) {
        for (const std::string_view name : {kFormatsName, kFilesName}) {
          entries.push_back({std::string(name), true, 0});
        }
        return entries;
      }
      if (directory == kFormatsName) {
        for (const VirtualFormat& format : kFormats) {
          entries.push_back({std::string(format.name), true, 0});
        }
        return entries;
      }
      HF_RETURN_IF_ERROR(stored_->CheckUnchanged(/*looks_now=*/false));
      HF_ASSIGN_OR_RETURN(const Found found, Find(directory));
      return found.tree->List(found.rest);
    });
  }

  Status ReadInto(std::string_view name, uint64_t offset,
                  std::span<char> target) const override {
    return CatchBadAlloc([&]() -> Status {
      HF_ASSIGN_OR_RETURN(const Found found, Find(name));
      HF_ASSIGN_OR_RETURN(const VirtualEntry entry,
                          found.tree->Stat(found.rest));
      if (entry.is_directory) {
        return InvalidArgumentError("read " + std::string(name) +
                                    ": it is a directory");
      }
      if (offset > entry.byte_count ||
          target.size() > entry.byte_count - offset) {
        return OutOfRangeError("read " + std::string(name) + ": " +
                               std::to_string(target.size()) + " bytes at " +
                               std::to_string(offset) + " of " +
                               std::to_string(entry.byte_count));
      }
      if (target.empty()) return Status();
      // Check afterwards, because cached bytes may belong to a checkpoint that
      // no longer exists.
      const Status read = found.tree->ReadInto(found.rest, offset, target);
      HF_RETURN_IF_ERROR(stored_->CheckUnchanged(/*looks_now=*/!read.ok()));
      return read.ok() ? read : read.WithContext("read " + std::string(name));
    });
  }

  std::string Tag(std::string_view name) const override {
    Xxh64 hash;
    const uint64_t files = stored_->hash();
    hash.Update({reinterpret_cast<const char*>(&files), sizeof files});
    hash.Update(name);
    return HexNumber(hash.Digest(), 16);
  }

  bool IsCurrent() const override { return stored_->IsCurrent(); }
  bool IsChanged() const override {
    return !stored_->CheckUnchanged(/*looks_now=*/false).ok();
  }

 private:
  struct Found {
    const FileTree* tree = nullptr;
    std::string_view rest;  // of the name, within the tree
  };

  Result<Found> Find(std::string_view name) const {
    std::string_view rest = name;
    const std::string_view first = TakePart(rest);
    if (first == kFilesName) return Found{stored_.get(), rest};
    if (first != kFormatsName) return NoSuchFile(name);
    const std::string_view format = TakePart(rest);
    for (size_t i = 0; i < kFormats.size(); ++i) {
      if (kFormats[i].name != format) continue;
      HF_ASSIGN_OR_RETURN(const FileTree* tree, TreeOf(i));
      return Found{tree, rest};
    }
    return NoSuchFile(name);
  }

  Result<const FileTree*> TreeOf(size_t format) const {
    LazyTree& lazy = trees_[format];
    const std::lock_guard lock(lazy.mutex);
    if (lazy.tree == nullptr) {
      auto made = kFormats[format].make(leaves_);
      if (!made.ok()) {
        return made.status().WithContext(std::string(kFormats[format].name) +
                                         " of " + checkpoint().info().path);
      }
      lazy.tree = std::move(made).value();
    }
    return lazy.tree.get();
  }

  const std::shared_ptr<const LeafBytes> leaves_;
  std::unique_ptr<StoredFiles> stored_;
  mutable std::array<LazyTree, kFormats.size()> trees_;
};

}  // namespace

Result<std::unique_ptr<VirtualFiles>> VirtualFiles::Open(
    const std::string& path, const VirtualFilesOptions& options) {
  return CatchBadAlloc([&]() -> Result<std::unique_ptr<VirtualFiles>> {
    // The checkpoint that is opened must be the one that is listed. If another
    // one may just have taken the name, open and list again until nothing
    // changes.
    constexpr int kAttemptsMax = 5;
    std::string listed;
    for (int attempt = 0; attempt < kAttemptsMax; ++attempt) {
      const auto begun = std::chrono::system_clock::now();
      HF_ASSIGN_OR_RETURN(std::unique_ptr<Checkpoint> checkpoint,
                          holdfast::Open(path, options.open));
      auto files =
          std::make_unique<CheckpointFiles>(std::move(checkpoint), options);
      HF_RETURN_IF_ERROR(files->ListFiles());
      std::string now = files->checkpoint().info().path + files->Tag("");
      if (now == listed || !files->MayHaveMovedSince(begun)) {
        return std::unique_ptr<VirtualFiles>(std::move(files));
      }
      listed = std::move(now);
    }
    return DataLossError("open " + path +
                         ": the checkpoint is being replaced again and again");
  });
}

std::vector<std::string_view> VirtualFormats() {
  std::vector<std::string_view> names;
  for (const VirtualFormat& format : kFormats) names.push_back(format.name);
  return names;
}

}  // namespace holdfast
