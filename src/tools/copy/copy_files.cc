#include "tools/copy/copy_files.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <mutex>

#include "ground/base/status_macros.h"
#include "ground/record/call_record.h"
#include "stores/storage/errno_status.h"
#include "stores/storage/unique_fd.h"

namespace holdfast {
namespace {

class LocalFileReader final : public ListedFileReader {
 public:
  LocalFileReader(std::string path, const ListedFile& file, UniqueFd fd)
      : path_(std::move(path)), file_(file), fd_(std::move(fd)) {}

  Status Read(uint64_t offset, std::span<char> target) override {
    while (!target.empty()) {
      const ssize_t got = ::pread(fd_.get(), target.data(), target.size(),
                                  static_cast<off_t>(offset));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) return ErrnoStatus(errno, "read", path_);
      if (got == 0) return Changed();
      offset += static_cast<uint64_t>(got);
      target = target.subspan(static_cast<size_t>(got));
    }
    return Status();
  }

  Status CheckUnchanged() override {
    HF_ASSIGN_OR_RETURN(const TreeListing now, ListWholeTree(Place(path_)));
    const bool is_same = now.is_file && now.files[0].version == file_.version &&
                         now.files[0].byte_count == file_.byte_count;
    return is_same ? Status() : Changed();
  }

  // Fails if the opened file is not the listed one, for example because a link
  // has replaced it.
  Status CheckIsListed() const {
    struct stat info;
    if (::fstat(fd_.get(), &info) != 0) {
      return ErrnoStatus(errno, "stat", path_);
    }
    return VersionOfFile(info) == file_.version ? Status() : Changed();
  }

 private:
  Status Changed() const {
    return FailedPreconditionError("read " + path_ +
                                   ": it has changed since it was listed");
  }

  const std::string path_;
  const ListedFile& file_;
  const UniqueFd fd_;
};

// Reads an object. The bucket guarantees that all pieces belong to one version.
class ObjectReader final : public ListedFileReader {
 public:
  ObjectReader(std::shared_ptr<Bucket> bucket, std::string key,
               std::string version)
      : bucket_(std::move(bucket)),
        key_(std::move(key)),
        version_(std::move(version)) {}

  Status Read(uint64_t offset, std::span<char> target) override {
    if (target.empty()) return Status();
    const uint64_t part_bytes = bucket_->traits().get_bytes_max;
    std::vector<GetRequest> requests;
    for (uint64_t done = 0; done < target.size();) {
      const uint64_t count =
          std::min<uint64_t>(part_bytes, target.size() - done);
      requests.push_back({.key = key_,
                          .range = {offset + done, count},
                          .version = version_,
                          .target = target.subspan(done, count)});
      done += count;
    }
    for (const Result<GetResult>& got : bucket_->Get(requests)) {
      HF_RETURN_IF_ERROR(got.status());
    }
    return Status();
  }

  Status CheckUnchanged() override { return Status(); }

 private:
  const std::shared_ptr<Bucket> bucket_;
  const std::string key_;
  const std::string version_;
};

uint64_t PieceCount(uint64_t byte_count) {
  return byte_count == 0 ? 1 : (byte_count - 1) / kCopyPieceBytes + 1;
}

// Numbers the pieces of several files consecutively. Does not store the pieces,
// because a server's false sizes could make them too many.
class PieceNumbers {
 public:
  struct Piece {
    size_t file = 0;
    uint64_t index = 0;  // in the file
  };

  void AddFile(uint64_t piece_count) { ends_.push_back(count() + piece_count); }
  uint64_t count() const { return ends_.empty() ? 0 : ends_.back(); }
  Piece operator[](uint64_t number) const {
    const auto end = std::upper_bound(ends_.begin(), ends_.end(), number);
    return {static_cast<size_t>(end - ends_.begin()),
            number - (end == ends_.begin() ? 0 : *std::prev(end))};
  }

 private:
  std::vector<uint64_t> ends_;
};

// The copy of one file. Any threads may copy its pieces, which begin in order.
class FileJob {
 public:
  FileJob(const TreeListing& source, const FileCopy& file,
          const CopyTarget& target, const std::vector<SummedRange>& ranges)
      : source_(source),
        file_(file),
        target_(target),
        sums_(ranges),
        pieces_left_(piece_count()) {}

  const std::string& name() const { return file_.source->name; }
  uint64_t byte_count() const { return file_.source->byte_count; }
  uint64_t piece_count() const { return PieceCount(byte_count()); }

  Status CopyPiece(uint64_t index, Buffer& scratch) {
    if (piece_count() == 1) return CopyWhole(scratch);
    const uint64_t offset = index * kCopyPieceBytes;
    const uint64_t count = std::min(kCopyPieceBytes, byte_count() - offset);
    HF_RETURN_IF_ERROR(Open());
    scratch.Reserve(count);
    HF_RETURN_IF_ERROR(reader_->Read(offset, {scratch.data(), count}));
    const std::string_view piece(scratch.data(), count);
    sums_.Add(offset, piece);
    HF_RETURN_IF_ERROR(writer_->WriteAt(offset, {&piece, 1}));
    if (pieces_left_.fetch_sub(1) > 1) return Status();
    HF_RETURN_IF_ERROR(CheckSource(*reader_));
    HF_RETURN_IF_ERROR(writer_->Finish(/*sync=*/true));
    Close();
    return Status();
  }

  // Closes both ends. Removes the target's file if it is unfinished.
  void Close() {
    writer_.reset();
    reader_.reset();
  }

 private:
  Status CopyWhole(Buffer& scratch) {
    HF_ASSIGN_OR_RETURN(const auto reader,
                        OpenListedFile(source_, *file_.source));
    scratch.Reserve(byte_count());
    HF_RETURN_IF_ERROR(reader->Read(0, {scratch.data(), byte_count()}));
    sums_.Add(0, {scratch.data(), byte_count()});
    HF_RETURN_IF_ERROR(CheckSource(*reader));
    // An object store writes in the background. FileCopier waits for all
    // writes.
    const bool is_local = target_.bucket == nullptr;
    return target_.store->Write(file_.target,
                                std::string_view(scratch.data(), byte_count()),
                                {.sync = is_local, .atomic = is_local});
  }

  Status CheckSource(ListedFileReader& reader) {
    HF_RETURN_IF_ERROR(reader.CheckUnchanged());
    return sums_.Check(source_.PathOf(*file_.source));
  }

  Status Open() {
    const std::lock_guard lock(mutex_);
    if (writer_ != nullptr) return Status();
    HF_ASSIGN_OR_RETURN(reader_, OpenListedFile(source_, *file_.source));
    HF_ASSIGN_OR_RETURN(writer_, target_.store->Create(file_.target));
    return Status();
  }

  const TreeListing& source_;
  const FileCopy& file_;
  const CopyTarget& target_;
  FileSums sums_;
  std::mutex mutex_;
  std::unique_ptr<ListedFileReader> reader_;
  std::unique_ptr<ObjectWriter> writer_;
  std::atomic<uint64_t> pieces_left_;
};

bool IsServerCopy(const TreeListing& source, const CopyTarget& target) {
  return target.bucket != nullptr && source.bucket.get() == target.bucket;
}

}  // namespace

Status FileCopier::Copy(std::span<const FileCopy> files,
                        const CopyTarget& target, const ListedSums& sums) {
  if (IsServerCopy(source_, target)) {
    return run_.executor().ParallelFor(
        files.size(),
        [&](size_t i, int) -> Status {
          HF_RETURN_IF_ERROR(target.bucket
                                 ->Copy(source_.KeyOf(*files[i].source),
                                        target.prefix + files[i].target)
                                 .status());
          ++server_file_count_;
          server_byte_count_ += files[i].source->byte_count;
          run_.AddDone(files[i].source->byte_count);
          return Status();
        },
        &run_.cancel());
  }
  std::vector<std::unique_ptr<FileJob>> jobs;
  PieceNumbers pieces;
  const std::vector<SummedRange> none;
  for (const FileCopy& file : files) {
    const auto listed = sums.find(file.source->name);
    FileJob& job = *jobs.emplace_back(std::make_unique<FileJob>(
        source_, file, target, listed == sums.end() ? none : listed->second));
    pieces.AddFile(job.piece_count());
  }
  std::vector<Buffer> scratch(
      static_cast<size_t>(run_.executor().thread_count()));
  HF_RETURN_IF_ERROR(run_.executor().ParallelFor(
      pieces.count(),
      [&](size_t i, int worker) -> Status {
        const auto [file, index] = pieces[i];
        FileJob& job = *jobs[file];
        const uint64_t offset = index * kCopyPieceBytes;
        const OnCall on(run_.call());
        const PhaseScope scope(
            Phase::kCopy, job.name(),
            std::min(kCopyPieceBytes, job.byte_count() - offset), offset);
        HF_RETURN_IF_ERROR(
            job.CopyPiece(index, scratch[static_cast<size_t>(worker)]));
        run_.AddDone(std::min(kCopyPieceBytes, job.byte_count() - offset));
        return Status();
      },
      &run_.cancel()));
  return target.store->SyncNames();
}

Result<bool> FileCopier::Equal(const std::vector<std::string>& names,
                               const TreeListing& other,
                               std::string_view other_prefix) {
  std::vector<std::pair<const ListedFile*, const ListedFile*>> pairs;
  PieceNumbers pieces;
  for (const std::string& name : names) {
    const ListedFile* const mine = source_.Find(name);
    const ListedFile* const theirs =
        other.Find(std::string(other_prefix) + name);
    if (mine == nullptr || theirs == nullptr ||
        mine->byte_count != theirs->byte_count) {
      return false;
    }
    if (mine->byte_count == 0) continue;
    pairs.emplace_back(mine, theirs);
    pieces.AddFile(PieceCount(mine->byte_count));
  }
  std::vector<std::pair<Buffer, Buffer>> scratch(
      static_cast<size_t>(run_.executor().thread_count()));
  std::atomic<bool> is_equal = true;
  HF_RETURN_IF_ERROR(run_.executor().ParallelFor(
      pieces.count(),
      [&](size_t i, int worker) -> Status {
        if (!is_equal) return Status();
        const auto [pair, index] = pieces[i];
        const auto& [my_file, their_file] = pairs[pair];
        const uint64_t offset = index * kCopyPieceBytes;
        const uint64_t count =
            std::min(kCopyPieceBytes, my_file->byte_count - offset);
        auto& [a, b] = scratch[static_cast<size_t>(worker)];
        a.Reserve(count);
        b.Reserve(count);
        HF_ASSIGN_OR_RETURN(const auto mine, OpenListedFile(source_, *my_file));
        HF_ASSIGN_OR_RETURN(const auto theirs,
                            OpenListedFile(other, *their_file));
        HF_RETURN_IF_ERROR(mine->Read(offset, {a.data(), count}));
        HF_RETURN_IF_ERROR(theirs->Read(offset, {b.data(), count}));
        if (std::string_view(a.data(), count) !=
            std::string_view(b.data(), count)) {
          is_equal = false;
        }
        return Status();
      },
      &run_.cancel()));
  return is_equal.load();
}

Result<std::unique_ptr<ListedFileReader>> OpenListedFile(
    const TreeListing& listing, const ListedFile& file) {
  if (!listing.is_local()) {
    return std::unique_ptr<ListedFileReader>(std::make_unique<ObjectReader>(
        listing.bucket, listing.KeyOf(file), file.version));
  }
  std::string path = listing.PathOf(file);
  UniqueFd fd(
      ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!fd.valid()) return ErrnoStatus(errno, "open", path);
  auto reader =
      std::make_unique<LocalFileReader>(std::move(path), file, std::move(fd));
  HF_RETURN_IF_ERROR(reader->CheckIsListed());
  return std::unique_ptr<ListedFileReader>(std::move(reader));
}

Result<std::string> ReadListedFile(const TreeListing& listing,
                                   const ListedFile& file) {
  constexpr uint64_t kWholeBytesMax = uint64_t{256} << 20;
  if (file.byte_count > kWholeBytesMax) {
    return DataLossError("read " + listing.PathOf(file) + ": " +
                         std::to_string(file.byte_count) +
                         " bytes, which this file cannot have");
  }
  HF_ASSIGN_OR_RETURN(const auto reader, OpenListedFile(listing, file));
  std::string text(file.byte_count, '\0');
  HF_RETURN_IF_ERROR(reader->Read(0, text));
  return text;
}

}  // namespace holdfast
