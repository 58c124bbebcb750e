#include "stores/storage/directory_lock.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>

#include "twins/scratch_directory.h"

namespace holdfast {
namespace {

namespace fs = std::filesystem;

class DirectoryLockTest : public testing::Test {
 protected:
  ScratchDirectory scratch_;
  const std::string path_ = scratch_.path() + "/d";
};

TEST_F(DirectoryLockTest, OneAtATime) {
  auto first = DirectoryLock::Make(path_);
  ASSERT_TRUE(first.ok()) << first.status().ToString();
  EXPECT_EQ(DirectoryLock::Take(path_).status().code(),
            StatusCode::kAlreadyExists);
  EXPECT_EQ(DirectoryLock::Make(path_).status().code(),
            StatusCode::kAlreadyExists);
  first->Unlock();
  EXPECT_TRUE(DirectoryLock::Take(path_).ok());
  EXPECT_EQ(DirectoryLock::Take(path_ + "x").status().code(),
            StatusCode::kNotFound);
}

TEST_F(DirectoryLockTest, StaysWithTheDirectoryAndNotWithTheName) {
  auto lock = DirectoryLock::Make(path_);
  ASSERT_TRUE(lock.ok());
  fs::rename(path_, path_ + "2");
  WriteTestFile(path_ + "/of_another", "x");
  EXPECT_FALSE(*lock->IsAt(path_));
  EXPECT_TRUE(*lock->IsAt(path_ + "2"));
  EXPECT_EQ(lock->Remove(path_).code(), StatusCode::kNotFound);
  EXPECT_TRUE(fs::exists(path_ + "/of_another"));
  WriteTestFile(path_ + "2/a/b", "x");
  EXPECT_TRUE(lock->Remove(path_ + "2").ok());
  EXPECT_FALSE(fs::exists(path_ + "2"));
  EXPECT_FALSE(lock->is_held());
}

TEST_F(DirectoryLockTest, MakesNoDirectoryThatSomebodyHasFilled) {
  WriteTestFile(path_ + "/x", "x");
  EXPECT_EQ(DirectoryLock::Make(path_).status().code(),
            StatusCode::kAlreadyExists);
  EXPECT_TRUE(fs::exists(path_ + "/x"));
}

// A forked child has the descriptor, but does not hold the lock.
TEST_F(DirectoryLockTest, IsNotTheChilds) {
  auto lock = DirectoryLock::Make(path_);
  ASSERT_TRUE(lock.ok());
  const pid_t child = ::fork();
  if (child == 0) {
    const bool is_held = lock->is_held();
    lock->Unlock();
    ::_exit(is_held ? 1 : 0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(DirectoryLock::Take(path_).status().code(),
            StatusCode::kAlreadyExists);
}

}  // namespace
}  // namespace holdfast
