// RepairedFiles: a read-only bucket of a damaged checkpoint's files, some of
// them hidden, replaced, renamed or truncated, so that the readers of intact
// checkpoints can read the rest.
//
// The source is listed once and never written to. A file consists of the first
// bytes of a source file, then bytes from memory, then a hole if the file is
// longer according to its own header. Reading the hole is DataLoss.
// Thread-safety: edit on one thread. After the last edit, any thread may read.
// Ownership: shares the source's store. Units: bytes.
// Errors: those of the source's store and of Bucket; writes are Unimplemented.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "stores/cloud/read_only_bucket.h"
#include "stores/place/place.h"
#include "stores/storage/store.h"

namespace holdfast {

class RepairedFiles final : public ReadOnlyBucket {
 public:
  struct File {
    std::string source;       // its name in the source
    uint64_t kept_bytes = 0;  // the first bytes of the source
    Bytes tail;               // follows the kept bytes
    uint64_t byte_count = 0;  // a hole follows the tail
  };
  // By path below the directory.
  using Files = std::map<std::string, File, std::less<>>;

  // Lists a directory's files, or takes a single file.
  static Result<std::shared_ptr<RepairedFiles>> Of(const Place& source);

  const Files& files() const { return files_; }
  bool Has(std::string_view path) const { return files_.contains(path); }
  // Returns the paths that begin with `prefix`.
  std::vector<std::string> Below(std::string_view prefix) const;
  // Returns true if anything was edited, or if the source's own name marks the
  // checkpoint as unfinished.
  bool is_edited() const { return is_edited_; }

  // Hides a path; returns false if it does not exist.
  bool Hide(const std::string& path);
  void HideBelow(const std::string& prefix);
  // Returns true if Put has replaced the content.
  bool IsReplaced(const std::string& path) const;
  // Adds a file, or replaces one.
  void Put(const std::string& path, Bytes bytes);
  // Changes the file to its first `kept_bytes`, followed by `tail` and a hole
  // up to `byte_count`. REQUIRES: the file exists and was not edited.
  void Patch(const std::string& path, uint64_t kept_bytes, Bytes tail,
             uint64_t byte_count);
  // REQUIRES: both end in '/'.
  void RenameDirectory(const std::string& from, const std::string& to);

  // Returns the place from which to open the checkpoint. The place shares
  // `files`.
  static Place PlaceOf(const std::shared_ptr<RepairedFiles>& files);
  // Returns a store of the files below `directory` ("" or ending in '/').
  static std::shared_ptr<Store> StoreOf(
      const std::shared_ptr<RepairedFiles>& files,
      const std::string& directory = "");
  // Returns the text with the name of PlaceOf replaced by the source's path.
  std::string WithSourcePath(std::string text) const;

  const BucketTraits& traits() const override { return traits_; }
  std::string UrlOf(std::string_view key) const override;
  Result<ObjectEntry> Head(std::string_view key) override;
  std::vector<Result<GetResult>> Get(std::span<const GetRequest> requests,
                                     const CancelToken* cancel) override;
  Result<ListPage> List(const ListRequest& request) override;
  int64_t ServerTimeNs() const override { return 0; }

 private:
  RepairedFiles(const Place& source, std::shared_ptr<Store> store,
                std::string file_name, std::string final_name);

  std::string PlaceName() const;
  const File* FileOf(std::string_view key) const;
  Status HoleError(const File& file, std::string_view key,
                   uint64_t offset) const;
  Result<GetResult> GetOne(const GetRequest& request);
  Status Fill(const File& file, std::string_view key, uint64_t offset,
              std::span<char> target);

  const std::string source_path_;  // of the directory
  const std::string file_name_;    // "": the source is a directory
  const std::string final_name_;   // of the checkpoint once complete
  const std::shared_ptr<Store> store_;
  BucketTraits traits_;
  Files files_;
  bool is_edited_ = false;
};

}  // namespace holdfast
