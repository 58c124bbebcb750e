#include "tools/powerloss/disk_model.h"

#include <gtest/gtest.h>

namespace holdfast {
namespace {

using Kind = DiskChange::Kind;

constexpr NodeId kDirectory = 1;
constexpr NodeId kFile = 2;

DiskChange MakeDirectory() {
  return {.kind = Kind::kMakeDirectory,
          .node = kDirectory,
          .parent = kRootNode,
          .name = "d"};
}
DiskChange Create() {
  return {
      .kind = Kind::kCreate, .node = kFile, .parent = kDirectory, .name = "f"};
}
DiskChange Write(std::string data, uint64_t offset = 0) {
  return {.kind = Kind::kWrite,
          .node = kFile,
          .offset = offset,
          .data = std::move(data)};
}
DiskChange MoveToRoot() {
  return {.kind = Kind::kMove,
          .node = kFile,
          .parent = kDirectory,
          .name = "f",
          .to_parent = kRootNode,
          .to_name = "g"};
}
DiskChange Sync(NodeId node) { return {.kind = Kind::kSync, .node = node}; }

// Returns the safe state after the changes, as "d/ d/f=text".
std::string Safe(const std::vector<DiskChange>& changes) {
  DiskModel model{DiskState()};
  for (const DiskChange& change : changes) model.Step(change);
  std::string text;
  for (const auto& [path, bytes] : model.safe().List()) {
    if (!text.empty()) text += ' ';
    text += path + (bytes ? "=" + *bytes : "/");
  }
  return text;
}

TEST(DiskModel, NothingIsSafeWithoutSync) {
  EXPECT_EQ(Safe({MakeDirectory(), Create(), Write("text")}), "");
}

TEST(DiskModel, SyncOfAFileDoesNotSaveItsName) {
  EXPECT_EQ(Safe({MakeDirectory(), Sync(kRootNode), Create(), Write("text"),
                  Sync(kFile)}),
            "d/");
}

TEST(DiskModel, SyncOfADirectoryDoesNotSaveBytes) {
  EXPECT_EQ(Safe({MakeDirectory(), Sync(kRootNode), Create(), Write("text"),
                  Sync(kDirectory)}),
            "d/ d/f=");
}

TEST(DiskModel, BytesSyncedBeforeTheNameStay) {
  EXPECT_EQ(Safe({MakeDirectory(), Create(), Write("text"), Sync(kFile),
                  Write("!", 4), Sync(kDirectory), Sync(kRootNode)}),
            "d/ d/f=text");
}

TEST(DiskModel, AMoveNeedsBothDirectories) {
  const std::vector<DiskChange> before = {MakeDirectory(),  Create(),
                                          Write("text"),    Sync(kFile),
                                          Sync(kDirectory), Sync(kRootNode)};
  std::vector<DiskChange> one = before;
  one.push_back(MoveToRoot());
  one.push_back(Sync(kRootNode));
  EXPECT_EQ(Safe(one), "d/ d/f=text");
  one.push_back(Sync(kDirectory));
  EXPECT_EQ(Safe(one), "d/ g=text");
}

TEST(DiskModel, AnExchangeIsWholeOrNot) {
  std::vector<DiskChange> changes = {MakeDirectory(), Create(), Write("old"),
                                     Sync(kFile), Sync(kDirectory)};
  changes.push_back(
      {.kind = Kind::kCreate, .node = 3, .parent = kRootNode, .name = "new"});
  changes.push_back(Sync(kRootNode));
  changes.push_back({.kind = Kind::kExchange,
                     .node = 3,
                     .parent = kRootNode,
                     .name = "new",
                     .to_parent = kRootNode,
                     .to_name = "d",
                     .other = kDirectory});
  EXPECT_EQ(Safe(changes), "d/ d/f=old new=");
  changes.push_back(Sync(kRootNode));
  EXPECT_EQ(Safe(changes), "d= new/ new/f=old");
}

TEST(DiskModel, LaterChangesMayOutliveEarlierOnes) {
  DiskModel model{DiskState()};
  for (const DiskChange& change :
       {MakeDirectory(), Sync(kRootNode), Create(), Sync(kDirectory),
        Write("one"), Write("two", 3)}) {
    model.Step(change);
  }
  ASSERT_EQ(model.pending_count(), 2u);
  const DiskState state = model.After([](size_t i, const DiskChange& change) {
    return i == 1 ? &change : nullptr;
  });
  EXPECT_EQ(*state.List().at("d/f"), std::string("\0\0\0two", 6));
}

}  // namespace
}  // namespace holdfast
