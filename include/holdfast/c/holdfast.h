// The C API: opens, lists, reads, verifies and saves checkpoints from C99, or
// any language that can call C. doc/c.md is its guide.
//
//   holdfast_checkpoint* checkpoint = NULL;
//   size_t leaf = 0, bytes = 0;
//   if (holdfast_open("/checkpoints/7", NULL, &checkpoint) != HOLDFAST_OK ||
//       holdfast_find(checkpoint, "params.w", &leaf) != HOLDFAST_OK ||
//       holdfast_leaf_bytes(checkpoint, leaf, &bytes) != HOLDFAST_OK) {
//     fprintf(stderr, "%s\n", holdfast_last_error());
//   }
//   ...
//   holdfast_close(checkpoint);
//
// Errors: every call that can fail returns a holdfast_code;
// holdfast_last_error() returns the message. A null pointer for a required
// value is INVALID_ARGUMENT, and an index past the end is OUT_OF_RANGE. After a
// failure, outputs are unchanged, except for the bytes of a target. No C++
// exception leaves the library.
// Thread-safety: several threads may use an open checkpoint or a report
// concurrently; a state may be used by one thread at a time.
// Ownership: the caller must close each handle that a call opens or makes.
// Pointers in structs that a call fills belong to the handle, and are valid
// until it is closed.
// Units: shapes and origins in elements, outermost dimension first; elements in
// C order, little endian, in the layout of numpy and ml_dtypes.
// Versions: each struct begins with its size, which the caller must set. In
// options, zeros in the other members select the defaults. The library accepts
// structs of programs that were compiled with an older header, and those of a
// newer header if their additional members are zero.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "holdfast/export.h"

#ifdef __cplusplus
extern "C" {
#endif

// The codes of holdfast/status.h.
typedef enum holdfast_code {
  HOLDFAST_OK = 0,
  HOLDFAST_INVALID_ARGUMENT = 1,
  HOLDFAST_NOT_FOUND = 2,
  HOLDFAST_ALREADY_EXISTS = 3,
  HOLDFAST_FAILED_PRECONDITION = 4,
  HOLDFAST_OUT_OF_RANGE = 5,
  HOLDFAST_PERMISSION_DENIED = 6,
  HOLDFAST_RESOURCE_EXHAUSTED = 7,
  HOLDFAST_UNAVAILABLE = 8,
  HOLDFAST_UNIMPLEMENTED = 9,
  HOLDFAST_CANCELLED = 10,
  HOLDFAST_DEADLINE_EXCEEDED = 11,
  HOLDFAST_DATA_LOSS = 12,
  HOLDFAST_INTERNAL = 13
} holdfast_code;

typedef struct holdfast_checkpoint holdfast_checkpoint;
typedef struct holdfast_report holdfast_report;
typedef struct holdfast_state holdfast_state;

// Returns the version of the library that the program runs with, such as
// "0.1.0".
HOLDFAST_EXPORT const char* holdfast_version(void);
// Returns the code's name: "DATA_LOSS" for HOLDFAST_DATA_LOSS.
HOLDFAST_EXPORT const char* holdfast_code_name(holdfast_code code);
// Return the message and the code of this thread's latest failed call. The
// message is "what: where: why", or "" if no call has failed; it is valid until
// the thread's next call that fails.
HOLDFAST_EXPORT const char* holdfast_last_error(void);
HOLDFAST_EXPORT holdfast_code holdfast_last_error_code(void);
// Frees memory that a call returned. Null is fine.
HOLDFAST_EXPORT void holdfast_free(void* memory);

// ---- reading

typedef struct holdfast_open_options {
  size_t struct_size;
  // 0: the newest step in a directory of steps; otherwise `step`.
  int has_step;
  int64_t step;
  // Only this item of a checkpoint with several; null: all items.
  const char* item;
  // Not 0: do not check bytes against the checkpoint's list of checksums.
  int skip_checksums;
} holdfast_open_options;

// Opens the checkpoint at `path`. Reads only metadata. `options` may be null.
HOLDFAST_EXPORT holdfast_code
holdfast_open(const char* path, const holdfast_open_options* options,
              holdfast_checkpoint** checkpoint);
// Null is fine.
HOLDFAST_EXPORT void holdfast_close(holdfast_checkpoint* checkpoint);

typedef struct holdfast_leaf_info {
  size_t struct_size;
  const char* name;  // keys joined with '.'
  // "array", "scalar", "string", "bytes", "json", "none", "empty_dict", ...
  const char* kind;
  const char* dtype;     // "float32", "bfloat16", ...; null without a dtype
  size_t element_bytes;  // in memory; 0 without a dtype
  size_t rank;
  const int64_t* shape;  // `rank` extents
  uint64_t stored_bytes;
} holdfast_leaf_info;

// Leaves are indexed from 0, in the checkpoint's own order.
HOLDFAST_EXPORT holdfast_code
holdfast_leaf_count(const holdfast_checkpoint* checkpoint, size_t* count);
HOLDFAST_EXPORT holdfast_code holdfast_find(
    const holdfast_checkpoint* checkpoint, const char* name, size_t* leaf);
// Fills the members that fit in `info->struct_size`.
HOLDFAST_EXPORT holdfast_code
holdfast_leaf(const holdfast_checkpoint* checkpoint, size_t leaf,
              holdfast_leaf_info* info);

// Return the size in bytes of the target for holdfast_read and
// holdfast_read_box.
HOLDFAST_EXPORT holdfast_code holdfast_leaf_bytes(
    const holdfast_checkpoint* checkpoint, size_t leaf, size_t* bytes);
HOLDFAST_EXPORT holdfast_code
holdfast_box_bytes(const holdfast_checkpoint* checkpoint, size_t leaf,
                   size_t rank, const int64_t* shape, size_t* bytes);
// Reads a complete array or scalar in its stored dtype. INVALID_ARGUMENT unless
// target_bytes is the result of holdfast_leaf_bytes.
HOLDFAST_EXPORT holdfast_code
holdfast_read(const holdfast_checkpoint* checkpoint, size_t leaf, void* target,
              size_t target_bytes);
// Reads the box at `origin` with extents `shape`, and only the chunks that the
// box needs. Both have `rank` integers; `rank` must be the leaf's.
HOLDFAST_EXPORT holdfast_code
holdfast_read_box(const holdfast_checkpoint* checkpoint, size_t leaf,
                  size_t rank, const int64_t* origin, const int64_t* shape,
                  void* target, size_t target_bytes);
// Reads a string, bytes, JSON or object leaf. `*text` receives `*bytes` bytes
// followed by a zero byte, and must be freed with holdfast_free. `bytes` may be
// null.
HOLDFAST_EXPORT holdfast_code
holdfast_read_text(const holdfast_checkpoint* checkpoint, size_t leaf,
                   char** text, size_t* bytes);

// ---- verifying

typedef struct holdfast_damage {
  size_t struct_size;
  const char* leaf;  // "" if the damaged part belongs to no leaf
  const char* file;  // relative to the checkpoint
  int has_offset;
  uint64_t offset;
  holdfast_code code;
  const char* message;
} holdfast_damage;

// Reads and checks every byte. The report lists the damage, and separately the
// parts that holdfast cannot read because it does not support their dtype or
// kind of object. Those parts are not checked; they may be intact. If both
// lists are empty, everything is as it was saved. The call fails if the state
// of the checkpoint cannot be determined. `options` may be null.
HOLDFAST_EXPORT holdfast_code
holdfast_verify(const char* path, const holdfast_open_options* options,
                holdfast_report** report);
// Null is fine.
HOLDFAST_EXPORT void holdfast_report_close(holdfast_report* report);
HOLDFAST_EXPORT holdfast_code
holdfast_report_count(const holdfast_report* report, size_t* count);
HOLDFAST_EXPORT holdfast_code holdfast_report_damage(
    const holdfast_report* report, size_t index, holdfast_damage* damage);
HOLDFAST_EXPORT holdfast_code holdfast_report_not_supported_count(
    const holdfast_report* report, size_t* count);
HOLDFAST_EXPORT holdfast_code holdfast_report_not_supported(
    const holdfast_report* report, size_t index, holdfast_damage* found);

// ---- saving

// Makes an empty state, to which the calls below add named values to save. Keys
// in a name are separated by '.', and become nested dicts: "params.w" becomes
// {"params": {"w": ...}}.
HOLDFAST_EXPORT holdfast_code holdfast_state_new(holdfast_state** state);
// Null is fine.
HOLDFAST_EXPORT void holdfast_state_close(holdfast_state* state);
// Adds a C-order array. `data` is borrowed until the state is closed; it may be
// null if the array has no elements.
HOLDFAST_EXPORT holdfast_code holdfast_state_add_array(
    holdfast_state* state, const char* name, const char* dtype, size_t rank,
    const int64_t* shape, const void* data);
// Adds an array in the memory of a GPU, whose first element is at `address` (a
// CUdeviceptr). `strides` are in bytes; null: C order. A save waits for the
// work that is queued on `stream` (a CUstream; 0: the default stream) now. The
// memory is borrowed, and the elements must not change, until the state is
// closed. FAILED_PRECONDITION without a CUDA driver; see holdfast/device.h.
HOLDFAST_EXPORT holdfast_code holdfast_state_add_device_array(
    holdfast_state* state, const char* name, const char* dtype, size_t rank,
    const int64_t* shape, const int64_t* strides, uint64_t address,
    uint64_t stream);
// Add a value that Python reads as int, float, bool or str.
HOLDFAST_EXPORT holdfast_code holdfast_state_add_int(holdfast_state* state,
                                                     const char* name,
                                                     int64_t value);
HOLDFAST_EXPORT holdfast_code holdfast_state_add_float(holdfast_state* state,
                                                       const char* name,
                                                       double value);
HOLDFAST_EXPORT holdfast_code holdfast_state_add_bool(holdfast_state* state,
                                                      const char* name,
                                                      int value);
// Copies `text`, which must be UTF-8.
HOLDFAST_EXPORT holdfast_code holdfast_state_add_string(holdfast_state* state,
                                                        const char* name,
                                                        const char* text,
                                                        size_t bytes);

typedef struct holdfast_save_options {
  size_t struct_size;
  const char* format;       // "orbax", "orbax-v1"; null: "orbax"
  const char* compression;  // "planes", "zstd", "fast", "none"; null: "planes"
  int zarr_format;          // 2 or 3; 0: the default of `format`
  int use_files;            // not 0: no OCDBT, one directory per leaf
  int overwrite;            // not 0: replace an existing checkpoint at `path`
  int threads;              // 0: one per CPU
} holdfast_save_options;

// Writes a new checkpoint at `path`, which appears complete and durable, or not
// at all. `options` may be null. INVALID_ARGUMENT if a name is both a value and
// a dict, or the state is empty.
HOLDFAST_EXPORT holdfast_code
holdfast_save(const char* path, const holdfast_state* state,
              const holdfast_save_options* options);

#ifdef __cplusplus
}  // extern "C"
#endif
