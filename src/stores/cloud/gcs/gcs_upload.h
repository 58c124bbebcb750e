// GcsUpload: an object written by one resumable upload, one part after the
// other. (Google's JSON API has no parallel parts.)
//
// The session starts with the first part that is not the last. An object with a
// single part is a plain write. The last part is kept until Finish, where it
// completes the object, so that a condition can be checked just before. The
// session's address is a secret, because anyone who has it may upload; it
// appears in no message.
//
// A server may keep only the beginning of a part; the rest is then sent again.
// After a lost answer, the server is asked how much it has. An unfinished
// session cannot be listed; it expires after a week.
//
// Thread-safety: one thread at a time. Ownership: shares the api.
// Units: bytes. Errors: those of stores/cloud/bucket.h.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "stores/cloud/bucket.h"
#include "stores/cloud/gcs/gcs_api.h"
#include "stores/cloud/gcs/gcs_json.h"

namespace holdfast {

// Every chunk but an object's last is a multiple of this size.
inline constexpr uint64_t kGcsChunkUnitBytes = 256 << 10;

class GcsUpload : public Upload {
 public:
  // REQUIRES: the key is valid; `part_bytes` is a multiple of
  // kGcsChunkUnitBytes.
  GcsUpload(std::shared_ptr<GcsApi> api, std::string key, uint64_t part_bytes);
  ~GcsUpload() override;

  Status Part(uint64_t index, std::span<const std::string_view> pieces,
              bool is_last) override;
  Result<std::string> Finish(const Condition& condition) override;
  void Abort() override;

 private:
  struct Step;  // the server's answer to a chunk or query
  GcsAction Action() const;
  Status Start();
  Status SendChunk(std::span<const std::string_view> pieces, bool is_last);
  Result<Step> SendFrom(uint64_t at, std::span<const std::string_view> pieces,
                        std::optional<uint64_t> total);
  Result<Step> Ask(std::optional<uint64_t> total);
  Result<Step> StepOf(const HttpResponse& answer) const;
  Status CheckCondition(const Condition& condition) const;

  const std::shared_ptr<GcsApi> api_;
  const std::string key_;
  const uint64_t part_bytes_;
  std::string session_url_;  // "" before the session starts
  uint64_t next_index_ = 0;
  uint64_t sent_bytes_ = 0;  // in the previous parts
  uint32_t crc_;             // of all parts so far
  std::string last_part_;
  bool has_last_part_ = false;
  bool is_over_ = false;             // finished, aborted, or dead
  std::optional<GcsObject> object_;  // set once the server has made it
};

}  // namespace holdfast
