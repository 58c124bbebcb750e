// DataFileAppender: packs values and nodes back to back into data files.
//
// Place reserves ranges in the order of its calls, as if in one endless buffer.
// A file whose size reaches the target is closed, and the next range starts a
// new file. If the store prefers several objects written in parallel, that many
// files are open and take turns of 16 MiB. Any thread may write the bytes, in
// any order. A closed file is finished as soon as its last byte is written.
//
// Thread-safety: Place and Write from any thread; Finish after all have
// returned.
// Ownership: borrows the store and the file table; nothing else may extend the
// table while the appender lives. Without Finish, the destructor deletes its
// files.
// Units: bytes. Errors: those of the store.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "formats/ocdbt/format/data_file_table.h"
#include "holdfast/status.h"
#include "stores/storage/store.h"

namespace holdfast::ocdbt {

struct DataFileOptions {
  std::string directory;           // the database's: "" or ends in '/'
  std::string prefix = "d/";       // of file names, below the directory
  uint64_t target_byte_count = 0;  // 0: no limit
  bool sync = true;
  std::function<std::string()> new_file_name;
};

struct WrittenFile {
  std::string path;  // relative to the database's directory
  uint64_t byte_count = 0;
};

class DataFileAppender {
 public:
  DataFileAppender(Store* store, DataFileOptions options, DataFileTable* files);
  ~DataFileAppender();

  // Reserves the next `byte_count` (> 0) bytes. They must be written.
  Reference Place(uint64_t byte_count);

  // Writes bytes to a place, which may span several adjacent places.
  Status Write(const Reference& place,
               std::span<const std::string_view> pieces);

  // Starts a value whose size is known only after its last byte. The value
  // grows with each AppendStream. Place must not be called before EndStream.
  Reference StartStream();
  Status AppendStream(std::span<const std::string_view> pieces,
                      Reference& place);
  Status EndStream(const Reference& place);

  // Returns all files in order of creation. REQUIRES: every reserved byte was
  // written.
  Result<std::vector<WrittenFile>> Finish();

 private:
  struct File {
    std::string path;    // key in the store
    uint32_t index = 0;  // in the table
    uint64_t byte_count = 0;
    uint64_t unwritten_byte_count = 0;
    bool closed = false;  // no more placements
    bool finished = false;
    std::mutex create_mutex;
    std::unique_ptr<ObjectWriter> writer;
  };

  // Returns the file that gets the next range. REQUIRES: mutex_ held.
  File& OpenFile();
  void Grow(File& file, uint64_t byte_count);  // REQUIRES: mutex_ held
  void EndTurn(File& file);                    // REQUIRES: mutex_ held
  File& FileOf(const Reference& place);
  bool IsFull(const File& file) const;
  Status WriteTo(File& file, uint64_t offset, uint64_t byte_count,
                 std::span<const std::string_view> pieces);
  Status Create(File& file);
  Status FinishFile(File& file);

  Store* const store_;
  const DataFileOptions options_;
  DataFileTable* const table_;
  const size_t first_file_index_;

  std::mutex mutex_;
  std::vector<std::unique_ptr<File>> files_;
  std::vector<File*> open_;  // null: none yet, or closed
  size_t turn_ = 0;          // the index in open_ of the current file
  uint64_t turn_bytes_ = 0;
  bool finished_ = false;
};

}  // namespace holdfast::ocdbt
