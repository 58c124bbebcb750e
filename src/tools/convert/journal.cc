#include "tools/convert/journal.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <optional>
#include <utility>
#include <vector>

#include "ground/base/coding.h"
#include "ground/base/crc32c.h"
#include "ground/base/status_macros.h"
#include "ground/base/text.h"
#include "stores/place/directory_ops.h"
#include "stores/storage/errno_status.h"
#include "stores/storage/path_parts.h"

namespace holdfast {
namespace {

constexpr std::string_view kMagic = "holdfast-convert-1";
constexpr size_t kCrcDigits = 8;

std::string LineOf(std::string_view payload) {
  std::string line = HexNumber(Crc32c(payload), kCrcDigits);
  return line.append(" ").append(payload).append("\n");
}

std::optional<std::string_view> PayloadOf(std::string_view line) {
  if (line.size() < kCrcDigits + 1 || line[kCrcDigits] != ' ') {
    return std::nullopt;
  }
  const std::string_view payload = line.substr(kCrcDigits + 1);
  const auto crc = ParseNumber<uint64_t>(line.substr(0, kCrcDigits), 16);
  if (!crc || *crc != Crc32c(payload)) return std::nullopt;
  return payload;
}

// Splits "a b c" into three; with fewer words the rest is empty.
struct ThreeWords {
  std::string_view first, second, third;

  explicit ThreeWords(std::string_view text) {
    for (std::string_view* word : {&first, &second, &third}) {
      const size_t space = std::min(text.find(' '), text.size());
      *word = text.substr(0, space);
      text.remove_prefix(std::min(space + 1, text.size()));
    }
  }
};

bool TakeHead(std::string_view payload, JournalHead& head) {
  const ThreeWords words(payload);
  const auto source = ParseNumber<uint64_t>(words.second, 16);
  const auto plan = ParseNumber<uint64_t>(words.third, 16);
  if (words.first != kMagic || !source || !plan) return false;
  head = {*source, *plan};
  return true;
}

bool TakeRecord(std::string_view payload, FoundJournal& found) {
  const ThreeWords words(payload);
  const auto number = ParseNumber<uint64_t>(words.second);
  auto mark = BytesOfHex(words.third);
  if (words.first != "done" || !number || !mark) return false;
  found.marks[*number] = *std::move(mark);
  return true;
}

}  // namespace

FoundJournal ParseJournal(std::string_view text) {
  FoundJournal found;
  found.state = FoundJournal::State::kDamaged;
  std::string_view rest = text;
  bool is_first = true;
  while (!rest.empty()) {
    const size_t end = rest.find('\n');
    if (end == std::string_view::npos) break;  // a crash cut it off
    const auto payload = PayloadOf(rest.substr(0, end));
    const bool is_good = payload && (is_first ? TakeHead(*payload, found.head)
                                              : TakeRecord(*payload, found));
    rest.remove_prefix(end + 1);
    if (!is_good) {
      // A wrong line is excused only if it is the last: a crash may have left
      // half of it on disk.
      if (!rest.empty() || is_first) return found;
      break;
    }
    is_first = false;
    found.byte_count = text.size() - rest.size();
  }
  if (!is_first) found.state = FoundJournal::State::kGood;
  return found;
}

Result<FoundJournal> ReadJournal(const std::string& path) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  if (!fd.valid()) {
    if (errno == ENOENT || errno == ENOTDIR) return FoundJournal();
    return ErrnoStatus(errno, "open", path);
  }
  std::string text;
  std::vector<char> block(size_t{1} << 20);
  while (true) {
    const ssize_t count = ::read(fd.get(), block.data(), block.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return ErrnoStatus(errno, "read", path);
    if (count == 0) return ParseJournal(text);
    text.append(block.data(), count);
  }
}

Result<std::unique_ptr<Journal>> Journal::Create(const std::string& path,
                                                 const JournalHead& head,
                                                 bool sync) {
  UniqueFd fd(::open(
      path.c_str(),
      O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0666));
  if (!fd.valid()) return ErrnoStatus(errno, "create", path);
  std::unique_ptr<Journal> journal(new Journal(path, std::move(fd), sync));
  HF_RETURN_IF_ERROR(journal->AppendText(
      LineOf(std::string(kMagic) + " " + HexNumber(head.source_hash, 16) + " " +
             HexNumber(head.plan_hash, 16))));
  if (sync) HF_RETURN_IF_ERROR(SyncDirectory(Place(ParentPath(path))));
  return journal;
}

Result<std::unique_ptr<Journal>> Journal::Continue(const std::string& path,
                                                   const FoundJournal& found,
                                                   bool sync) {
  UniqueFd fd(
      ::open(path.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC | O_NOFOLLOW));
  if (!fd.valid()) return ErrnoStatus(errno, "open", path);
  // Remove half a line at the end, which would merge with the next record.
  if (::ftruncate(fd.get(), static_cast<off_t>(found.byte_count)) != 0) {
    return ErrnoStatus(errno, "truncate", path);
  }
  return std::unique_ptr<Journal>(new Journal(path, std::move(fd), sync));
}

Status Journal::Append(std::span<const JournalRecord> records) {
  std::string text;
  for (const JournalRecord& record : records) {
    text += LineOf("done " + std::to_string(record.number) + " " +
                   ToHex(record.mark));
  }
  return AppendText(text);
}

Status Journal::AppendText(std::string_view text) {
  while (!text.empty()) {
    const ssize_t count = ::write(fd_.get(), text.data(), text.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return ErrnoStatus(errno, "write", path_);
    text.remove_prefix(count);
  }
  if (sync_ && ::fdatasync(fd_.get()) != 0) {
    return ErrnoStatus(errno, "sync", path_);
  }
  return Status();
}

}  // namespace holdfast
