#include "ground/base/sha256.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <set>
#include <thread>

#include "ground/base/coding.h"

namespace holdfast {
namespace {

std::string HexOf(std::string_view text) {
  Sha256 hash;
  hash.Update(text.substr(0, text.size() / 3));
  hash.Update(text.substr(text.size() / 3));
  return hash.HexDigest();
}

TEST(Sha256Test, IsThatOfTheStandard) {  // FIPS 180-2, B
  EXPECT_EQ(HexOf(""),
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(HexOf("abc"),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(HexOf(std::string(1'000'000, 'a')),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Sha256Test, HmacIsThatOfTheStandard) {  // RFC 4231, 2 and 6
  EXPECT_EQ(ToHex(HmacSha256("Jefe", "what do ya want for nothing?")),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  EXPECT_EQ(ToHex(HmacSha256(
                std::string(131, '\xaa'),
                "Test Using Larger Than Block-Size Key - Hash Key First")),
            "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
}

TEST(RandomHexTest, NeverComesAgain) {
  std::set<std::string> seen;
  for (int i = 0; i < 1000; ++i) {
    const std::string hex = RandomHex32();
    EXPECT_EQ(hex.size(), 32u);
    EXPECT_TRUE(seen.insert(hex).second);
  }
}

// OpenSSL's own generator hung in about one of 200 such children.
TEST(RandomHexTest, ChildrenForkedWhileThreadsDrawGoOn) {
  std::atomic<bool> stops{false};
  std::thread drawer([&] {
    while (!stops) {
      std::thread([] {
        (void)RandomHex32();
        (void)HexOf("x");
      }).join();
    }
  });
  for (int i = 0; i < 1000; ++i) {
    const pid_t child = ::fork();
    if (child == 0) {
      ::alarm(60);  // ends a child that hangs
      ::_exit(RandomHex32().size() == 32 && !HexOf("x").empty() ? 0 : 1);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_EQ(status, 0) << "child " << i;
  }
  stops = true;
  drawer.join();
}

}  // namespace
}  // namespace holdfast
