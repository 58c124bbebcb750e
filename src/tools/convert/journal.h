// The journal of a conversion: which pieces are finished and durable, so that a
// later run need not write them again.
//
// A text file that only grows. Its first line names the plan, each other one
// finished piece by its number, with a few bytes about it; every line begins
// with its own CRC-32C. A line that was cut off by a crash ends the journal;
// one that is wrong in the middle makes all of it worthless. Thread-safety: one
// thread. Ownership: owns its descriptor. Errors: those of the file system.
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

// The conversion that a journal belongs to. Equal plans have equal pieces.
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
// Damage and absence are states, and no errors.
Result<FoundJournal> ReadJournal(const std::string& path);
// The same of a journal's text.
FoundJournal ParseJournal(std::string_view text);

class Journal {
 public:
  // A new one, in place of whatever is there.
  static Result<std::unique_ptr<Journal>> Create(const std::string& path,
                                                 const JournalHead& head,
                                                 bool sync);
  // Goes on behind the good lines of `found`.
  static Result<std::unique_ptr<Journal>> Continue(const std::string& path,
                                                   const FoundJournal& found,
                                                   bool sync);
  // With sync they are durable when it returns.
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
