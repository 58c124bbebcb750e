#include "stores/storage/nobodys_files.h"

#include <gtest/gtest.h>

namespace holdfast {
namespace {

TEST(NobodysFiles, AreWhatSystemsLeave) {
  for (const char* name :
       {".DS_Store", "._model.safetensors", ".nfs000000000000123400000001",
        "Thumbs.db", "desktop.ini", ".fuse_hidden0001"}) {
    EXPECT_TRUE(IsNobodysFile(name)) << name;
    EXPECT_TRUE(IsNobodysPath(std::string("7/default/") + name)) << name;
    EXPECT_FALSE(IsNobodysDirectory(name)) << name;
  }
  EXPECT_TRUE(IsNobodysDirectory(".ipynb_checkpoints"));
  EXPECT_TRUE(IsNobodysPath("7/.ipynb_checkpoints/a.ipynb"));
}

TEST(NobodysFiles, AreNoOneElses) {
  for (const char* name :
       {"", "._", ".nfs", "model.safetensors", ".zarray", ".metadata",
        "_METADATA", "notes.txt", ".hidden", "thumbs", "x.DS_Store"}) {
    EXPECT_FALSE(IsNobodysFile(name)) << name;
  }
  EXPECT_FALSE(IsNobodysDirectory("7 (copy)"));
  EXPECT_FALSE(IsNobodysPath("7/.DS_Store/a"));
}

}  // namespace
}  // namespace holdfast
