// PeerFileSender: an answer that is made of pieces of files, on its way from
// the page cache into a connection (sendfile), without a copy in this process.
//
// A piece that sendfile cannot send is read and sent; bytes that cannot be
// read, since the file was cut or its disk fails, are sent as zeros: the
// answer's size has been said. So these answers are for those who have a
// checksum of the bytes.
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

  // Sends until all is sent, the socket takes no more, or it is broken.
  // REQUIRES: the socket does not block.
  Progress Send(int socket);

 private:
  std::string head_;
  size_t head_done_bytes_ = 0;
  std::vector<PeerFilePiece> pieces_;  // those before next_ are sent
  size_t next_ = 0;
};

}  // namespace holdfast
