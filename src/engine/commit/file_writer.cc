#include "engine/commit/file_writer.h"

#include "engine/commit/lease.h"
#include "engine/format/directory_names.h"
#include "ground/base/crc32c.h"
#include "ground/base/status_macros.h"

namespace holdfast {

Status FileWriter::Write(std::string_view name, std::string_view text) {
  List(name, text);
  return WriteUnlisted(name, text);
}

void FileWriter::List(std::string_view name, std::string_view text) {
  digests_.files.push_back({std::string(name), text.size(), Crc32c(text)});
}

Status FileWriter::WriteUnlisted(std::string_view name, std::string_view text) {
  // A saver that lost its lease must not write into another save's directory.
  if (must_create()) {
    HF_RETURN_IF_ERROR(CheckLeasesAbove(guarded_path_, kLeaseGuardSeconds));
  }
  WriteOptions options;
  options.sync = sync_;
  options.must_create = must_create();
  options.may_queue = must_create();
  options.atomic = false;  // not visible before the commit
  return store_.Write(name, text, options);
}

Status FileWriter::WriteDigests() {
  digest_text_ = SerializeDigestFile(digests_);
  return WriteUnlisted(kDigestFile, digest_text_);
}

Status FileWriter::SyncNames() {
  return sync_ ? store_.SyncNames() : store_.Flush();
}

}  // namespace holdfast
