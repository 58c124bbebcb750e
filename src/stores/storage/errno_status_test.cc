#include "stores/storage/errno_status.h"

#include <gtest/gtest.h>

#include <cerrno>

namespace holdfast {
namespace {

TEST(ErrnoStatus, MessageIsWhatPathReason) {
  EXPECT_EQ(ErrnoStatus(ENOSPC, "write", "/ck/d/0").ToString(),
            "RESOURCE_EXHAUSTED: write /ck/d/0: No space left on device");
}

TEST(ErrnoStatus, CodesSayWhatToDo) {
  const struct {
    int error;
    StatusCode code;
  } kCases[] = {{ENOENT, StatusCode::kNotFound},
                {ENOTDIR, StatusCode::kNotFound},
                {EEXIST, StatusCode::kAlreadyExists},
                {EACCES, StatusCode::kPermissionDenied},
                {EPERM, StatusCode::kPermissionDenied},
                {EROFS, StatusCode::kPermissionDenied},
                {EDQUOT, StatusCode::kResourceExhausted},
                {EFBIG, StatusCode::kResourceExhausted},
                {EMFILE, StatusCode::kResourceExhausted},
                {EIO, StatusCode::kDataLoss},
                {ELOOP, StatusCode::kInvalidArgument},
                {EXDEV, StatusCode::kInvalidArgument},
                {ENAMETOOLONG, StatusCode::kInvalidArgument},
                {EISDIR, StatusCode::kFailedPrecondition},
                {ENOTEMPTY, StatusCode::kFailedPrecondition},
                {ESTALE, StatusCode::kUnavailable},
                {ETIMEDOUT, StatusCode::kUnavailable},
                {EOPNOTSUPP, StatusCode::kUnimplemented}};
  for (const auto& test : kCases) {
    EXPECT_EQ(CodeFromErrno(test.error), test.code) << test.error;
  }
}

}  // namespace
}  // namespace holdfast
