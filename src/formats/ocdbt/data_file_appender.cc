#include "formats/ocdbt/data_file_appender.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include "ground/base/no_throw.h"
#include "ground/base/status_macros.h"
#include "ground/record/recorder.h"

namespace holdfast::ocdbt {
namespace {

// Files above the threshold are padded with zeros to full pages, as in
// TensorStore.
constexpr uint64_t kPadThresholdBytes = uint64_t{4} << 20;
constexpr uint64_t kPadAlignBytes = 4096;
// When several files are open, each receives this much before it is the next
// file's turn: about one part of an upload.
constexpr uint64_t kTurnBytes = uint64_t{16} << 20;

uint64_t PaddingBytes(uint64_t byte_count) {
  if (byte_count <= kPadThresholdBytes) return 0;
  return (kPadAlignBytes - byte_count % kPadAlignBytes) % kPadAlignBytes;
}

}  // namespace

DataFileAppender::DataFileAppender(Store* store, DataFileOptions options,
                                   DataFileTable* files)
    : store_(store),
      options_(std::move(options)),
      table_(files),
      first_file_index_(files->size()),
      open_(static_cast<size_t>(std::max(1, store->writers_in_flight()))) {}

DataFileAppender::~DataFileAppender() {
  if (finished_) return;
  for (const std::unique_ptr<File>& file : files_) {
    // An unfinished writer deletes its file itself. A destructor cannot report
    // a failure, and an unreferenced file does no harm.
    if (!file->finished) continue;
    (void)CatchBadAlloc([&] { return store_->Delete(file->path); });
  }
}

DataFileAppender::File& DataFileAppender::OpenFile() {
  if (open_[turn_] != nullptr) return *open_[turn_];
  const std::string relative = options_.prefix + options_.new_file_name();
  table_->push_back({relative, 0});
  files_.push_back(std::make_unique<File>());
  File& file = *files_.back();
  file.path = options_.directory + relative;
  file.index = static_cast<uint32_t>(first_file_index_ + files_.size() - 1);
  open_[turn_] = &file;
  return file;
}

void DataFileAppender::Grow(File& file, uint64_t byte_count) {
  file.byte_count += byte_count;
  file.unwritten_byte_count += byte_count;
  turn_bytes_ += byte_count;
}

void DataFileAppender::EndTurn(File& file) {
  file.closed = IsFull(file);
  if (file.closed) open_[turn_] = nullptr;
  if (!file.closed && turn_bytes_ < kTurnBytes) return;
  // The next bytes go to another file, so that several are sent concurrently.
  turn_ = (turn_ + 1) % open_.size();
  turn_bytes_ = 0;
}

DataFileAppender::File& DataFileAppender::FileOf(const Reference& place) {
  // The list may grow in the meantime, but the File itself does not move.
  std::lock_guard lock(mutex_);
  return *files_[place.file_index - first_file_index_];
}

bool DataFileAppender::IsFull(const File& file) const {
  return options_.target_byte_count != 0 &&
         file.byte_count >= options_.target_byte_count;
}

Reference DataFileAppender::Place(uint64_t byte_count) {
  assert(byte_count > 0);
  std::lock_guard lock(mutex_);
  File& file = OpenFile();
  const Reference place{file.index, file.byte_count, byte_count};
  Grow(file, byte_count);
  EndTurn(file);
  return place;
}

Reference DataFileAppender::StartStream() {
  std::lock_guard lock(mutex_);
  const File& file = OpenFile();
  return {file.index, file.byte_count, 0};
}

Status DataFileAppender::AppendStream(std::span<const std::string_view> pieces,
                                      Reference& place) {
  const uint64_t byte_count = TotalBytes(pieces);
  File& file = FileOf(place);
  {
    // Done before the write, so that no thread considers the file complete.
    std::lock_guard lock(mutex_);
    Grow(file, byte_count);
  }
  const uint64_t offset = place.offset + place.byte_count;
  place.byte_count += byte_count;
  return WriteTo(file, offset, byte_count, pieces);
}

Status DataFileAppender::EndStream(const Reference& place) {
  File& file = FileOf(place);
  bool complete = false;
  {
    std::lock_guard lock(mutex_);
    EndTurn(file);
    complete = file.closed && file.unwritten_byte_count == 0;
  }
  return complete ? FinishFile(file) : Status();
}

Status DataFileAppender::Create(File& file) {
  // The first thread that writes to the file creates it, without mutex_, so
  // other threads can go on placing.
  std::lock_guard lock(file.create_mutex);
  if (file.writer != nullptr) return Status();
  HF_ASSIGN_OR_RETURN(file.writer, store_->Create(file.path));
  return Status();
}

Status DataFileAppender::Write(const Reference& place,
                               std::span<const std::string_view> pieces) {
  return WriteTo(FileOf(place), place.offset, place.byte_count, pieces);
}

Status DataFileAppender::WriteTo(File& file, uint64_t offset,
                                 uint64_t byte_count,
                                 std::span<const std::string_view> pieces) {
  HF_RETURN_IF_ERROR(Create(file));
  {
    const PhaseScope scope(Phase::kWrite, file.path, byte_count, offset);
    HF_RETURN_IF_ERROR(file.writer->WriteAt(offset, pieces));
  }
  bool complete = false;
  {
    std::lock_guard lock(mutex_);
    assert(file.unwritten_byte_count >= byte_count);
    file.unwritten_byte_count -= byte_count;
    complete = file.closed && file.unwritten_byte_count == 0;
  }
  // The last writer of a closed file finishes it, whatever range it wrote.
  return complete ? FinishFile(file) : Status();
}

Status DataFileAppender::FinishFile(File& file) {
  const uint64_t padding = PaddingBytes(file.byte_count);
  if (padding != 0) {
    const std::string zeros(padding, '\0');
    const std::string_view piece = zeros;
    HF_RETURN_IF_ERROR(file.writer->WriteAt(file.byte_count, {&piece, 1}));
    file.byte_count += padding;
  }
  const PhaseScope scope(Phase::kSync, file.path, file.byte_count);
  HF_RETURN_IF_ERROR(file.writer->Finish(options_.sync));
  file.finished = true;
  return Status();
}

Result<std::vector<WrittenFile>> DataFileAppender::Finish() {
  std::vector<WrittenFile> written;
  for (const std::unique_ptr<File>& file : files_) {
    assert(file->unwritten_byte_count == 0);
    if (!file->finished) HF_RETURN_IF_ERROR(FinishFile(*file));
    written.push_back(
        {file->path.substr(options_.directory.size()), file->byte_count});
  }
  finished_ = true;
  return written;
}

}  // namespace holdfast::ocdbt
