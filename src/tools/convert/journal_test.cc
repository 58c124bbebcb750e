#include "tools/convert/journal.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>

#include "twins/scratch_directory.h"

namespace holdfast {
namespace {

using State = FoundJournal::State;

std::string FileText(const std::string& path) {
  std::stringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

// Writes a journal of `count` records with random marks, and returns its text.
std::string JournalText(const std::string& path, size_t count,
                        std::vector<JournalRecord>& records) {
  std::mt19937 random(3);
  const auto journal = *Journal::Create(path, {17, 99}, false);
  for (size_t i = 0; i < count; ++i) {
    std::string mark;
    for (size_t k = random() % 9; k > 0; --k) {
      mark += static_cast<char>(random());
    }
    records.push_back({i * 3, mark});
    EXPECT_TRUE(journal->Append({&records.back(), 1}).ok());
  }
  return FileText(path);
}

TEST(Journal, KeepsWhatWasAppended) {
  ScratchDirectory scratch;
  const std::string path = scratch.path() + "/journal";
  EXPECT_EQ(ReadJournal(path)->state, State::kMissing);
  std::vector<JournalRecord> records;
  const std::string text = JournalText(path, 5, records);
  const auto found = ReadJournal(path);
  ASSERT_TRUE(found.ok());
  EXPECT_EQ(found->state, State::kGood);
  EXPECT_EQ(found->head, (JournalHead{17, 99}));
  EXPECT_EQ(found->byte_count, text.size());
  ASSERT_EQ(found->marks.size(), 5u);
  for (const JournalRecord& record : records) {
    EXPECT_EQ(found->marks.at(record.number), record.mark);
  }
}

TEST(Journal, ACutGivesTheLinesBeforeIt) {
  ScratchDirectory scratch;
  std::vector<JournalRecord> records;
  const std::string text = JournalText(scratch.path() + "/journal", 4, records);
  for (size_t size = 0; size <= text.size(); ++size) {
    const std::string cut = text.substr(0, size);
    const auto lines = std::count(cut.begin(), cut.end(), '\n');
    const FoundJournal found = ParseJournal(cut);
    if (lines == 0) {
      EXPECT_EQ(found.state, State::kDamaged) << size;
      continue;
    }
    EXPECT_EQ(found.state, State::kGood) << size;
    EXPECT_EQ(found.marks.size(), static_cast<size_t>(lines - 1)) << size;
    EXPECT_EQ(found.byte_count, cut.rfind('\n') + 1) << size;
  }
}

// A changed byte never produces a record that was not written.
TEST(Journal, DamageIsSeen) {
  ScratchDirectory scratch;
  std::vector<JournalRecord> records;
  const std::string text = JournalText(scratch.path() + "/journal", 4, records);
  const size_t last_line = text.rfind('\n', text.size() - 2) + 1;
  for (size_t i = 0; i < text.size(); ++i) {
    std::string damaged = text;
    damaged[i] ^= 1;
    const FoundJournal found = ParseJournal(damaged);
    if (i < last_line - 1) {
      EXPECT_EQ(found.state, State::kDamaged) << i;
      continue;
    }
    // The change is in the last line, or at the end of the line before.
    if (found.state != State::kGood) continue;
    EXPECT_LT(found.marks.size(), records.size()) << i;
    for (const auto& [number, mark] : found.marks) {
      EXPECT_EQ(mark, records[number / 3].mark) << i;
    }
  }
}

TEST(Journal, GoesOnBehindTheGoodLines) {
  ScratchDirectory scratch;
  const std::string path = scratch.path() + "/journal";
  std::vector<JournalRecord> records;
  const std::string text = JournalText(path, 3, records);
  std::filesystem::resize_file(path, text.size() - 4);
  const auto found = ReadJournal(path);
  ASSERT_EQ(found->marks.size(), 2u);
  const auto journal = Journal::Continue(path, *found, true);
  ASSERT_TRUE(journal.ok());
  const JournalRecord more{1000, "more"};
  ASSERT_TRUE((*journal)->Append({&more, 1}).ok());
  const auto again = ReadJournal(path);
  EXPECT_EQ(again->state, State::kGood);
  EXPECT_EQ(again->marks.size(), 3u);
  EXPECT_EQ(again->marks.at(1000), "more");
}

}  // namespace
}  // namespace holdfast
