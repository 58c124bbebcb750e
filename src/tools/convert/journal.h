// A conversion's journal: records which pieces are finished and durable, so
// that a later run need not write them again.
//
// It is a text file that only grows. Its first line identifies the plan. Every
// other line has the index of one finished piece, and a few bytes about it.
// Every line begins with its own CRC-32C. A last line that a crash cut off is
// ignored. A wrong line in the middle invalidates the whole journal.
// Thread-safety: one thread. Ownership: owns its descriptor. Errors: those of
// the file system.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>

#include "holdfast/status.h"
#include "stores/storage/unique_fd.h"

namespace holdfast {

// Identifies the conversion that a journal belongs to. Equal plans have equal
// pieces.
struct JournalHead {
  uint64_t source_hash = 0;  // of the files that are read
  uint64_t plan_hash = 0;    // of everything else that decides the result

  bool operator==(const JournalHead&) const = default;
};

struct JournalRecord {
  uint64_t number = 0;
  std::string mark;  // any bytes
};

// The journal of an earlier run.
struct FoundJournal {
  enum class State : uint8_t { kMissing, kDamaged, kGood };
  State state = State::kMissing;
  JournalHead head;
  std::unordered_map<uint64_t, std::string> marks;  // by number
  uint64_t byte_count = 0;                          // of the good lines
};
// Reads the journal. A damaged or missing journal is a state of the result, not
// an error.
Result<FoundJournal> ReadJournal(const std::string& path);
// Parses the text of a journal.
FoundJournal ParseJournal(std::string_view text);

class Journal {
 public:
  // Creates a new journal, replacing whatever exists.
  static Result<std::unique_ptr<Journal>> Create(const std::string& path,
                                                 const JournalHead& head,
                                                 bool sync);
  // Continues after the good lines of `found`.
  static Result<std::unique_ptr<Journal>> Continue(const std::string& path,
                                                   const FoundJournal& found,
                                                   bool sync);
  // Appends the records. If the journal was opened with `sync`, they are
  // durable when this returns.
  Status Append(std::span<const JournalRecord> records);

 private:
  Journal(std::string path, UniqueFd fd, bool sync)
      : path_(std::move(path)), fd_(std::move(fd)), sync_(sync) {}
  Status AppendText(std::string_view text);

  const std::string path_;
  const UniqueFd fd_;
  const bool sync_;
};

}  // namespace holdfast
