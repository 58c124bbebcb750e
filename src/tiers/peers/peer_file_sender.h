// PeerFileSender: sends an answer that consists of pieces of files. sendfile
// sends them from the page cache, without a copy in this process.
//
// A piece that sendfile cannot send is read and then sent. Bytes that cannot be
// read, because the file was truncated or its disk fails, are sent as zeros,
// since the answer's size has already been sent. Such answers are therefore
// only for clients that have a checksum of the bytes.
// Thread-safety: one call at a time. Ownership: shares the files, borrows the
// socket. Units: bytes.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace holdfast {

struct PeerFilePiece {
  std::shared_ptr<const void> owner;  // keeps the descriptor open
  int descriptor = -1;
  uint64_t offset = 0;
  uint64_t byte_count = 0;
};

class PeerFileSender {
 public:
  enum class Progress { kDone, kBlocked, kBroken };

  PeerFileSender(std::string head, std::vector<PeerFilePiece> pieces);

  // Sends until everything is sent, the socket accepts no more, or the socket
  // is broken. REQUIRES: the socket is non-blocking.
  Progress Send(int socket);

 private:
  std::string head_;
  size_t head_done_bytes_ = 0;
  std::vector<PeerFilePiece> pieces_;  // those before next_ are sent
  size_t next_ = 0;
};

}  // namespace holdfast
