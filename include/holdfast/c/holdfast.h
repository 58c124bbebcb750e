// The C API: checkpoints opened, listed, read, verified and saved from plain
// C99, and so from any language that calls C. doc/c.md is its guide.
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
// Errors: every call that can fail gives a holdfast_code; holdfast_last_error()
// has the words. A null pointer where one is wanted is INVALID_ARGUMENT, an
// index beyond the end OUT_OF_RANGE; after a failure outputs are as they were,
// but for the bytes of a target. No C++ exception comes out.
// Thread-safety: an open checkpoint and a report may be used by several threads
// at once, a state by one.
// Ownership: what a call opens or makes is the caller's to close. Pointers in
// structs that a call fills are the handle's, and end with it.
// Units: shapes and origins in elements, outermost dimension first; elements in
// C order, little endian, as numpy and ml_dtypes lay them out.
// Versions: a struct begins with its size, which the caller sets; zeros in the
// other members of options are the defaults. A library knows the structs of
// older programs, and of newer ones all that they leave at zero.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "holdfast/export.h"

#ifdef __cplusplus
extern "C" {
#endif

// Those of holdfast/status.h.
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

// "0.1.0": of the library the program runs with.
HOLDFAST_EXPORT const char* holdfast_version(void);
// "DATA_LOSS" of HOLDFAST_DATA_LOSS.
HOLDFAST_EXPORT const char* holdfast_code_name(holdfast_code code);
// The message of this thread's latest failed call: "what: where: why", or ""
// before one did. Valid until the next one fails.
HOLDFAST_EXPORT const char* holdfast_last_error(void);
HOLDFAST_EXPORT holdfast_code holdfast_last_error_code(void);
// Frees memory that a call gave. Null is fine.
HOLDFAST_EXPORT void holdfast_free(void* memory);

// ---- reading

typedef struct holdfast_open_options {
  size_t struct_size;
  // 0: of a directory of steps the newest one, not `step`.
  int has_step;
  int64_t step;
  // One item of a checkpoint that has several; null: all.
  const char* item;
  // Not 0: bytes are not compared with the checkpoint's list of checksums.
  int skip_checksums;
} holdfast_open_options;

// Reads only metadata. `options` may be null.
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
  const char* dtype;     // "float32", "bfloat16", ...; null if it has none
  size_t element_bytes;  // in memory; 0 without a dtype
  size_t rank;
  const int64_t* shape;  // `rank` extents
  uint64_t stored_bytes;
} holdfast_leaf_info;

// Leaves are numbered from 0, in the checkpoint's own order.
HOLDFAST_EXPORT holdfast_code
holdfast_leaf_count(const holdfast_checkpoint* checkpoint, size_t* count);
HOLDFAST_EXPORT holdfast_code holdfast_find(
    const holdfast_checkpoint* checkpoint, const char* name, size_t* leaf);
// Fills what `info->struct_size` has room for.
HOLDFAST_EXPORT holdfast_code
holdfast_leaf(const holdfast_checkpoint* checkpoint, size_t leaf,
              holdfast_leaf_info* info);

// The bytes that holdfast_read and holdfast_read_box want.
HOLDFAST_EXPORT holdfast_code holdfast_leaf_bytes(
    const holdfast_checkpoint* checkpoint, size_t leaf, size_t* bytes);
HOLDFAST_EXPORT holdfast_code
holdfast_box_bytes(const holdfast_checkpoint* checkpoint, size_t leaf,
                   size_t rank, const int64_t* shape, size_t* bytes);
// A whole array or scalar, as stored. INVALID_ARGUMENT unless target_bytes is
// what holdfast_leaf_bytes says.
HOLDFAST_EXPORT holdfast_code
holdfast_read(const holdfast_checkpoint* checkpoint, size_t leaf, void* target,
              size_t target_bytes);
// The box of extents `shape` at `origin`: `rank` numbers each, as many as the
// leaf has. Only the chunks it needs are read.
HOLDFAST_EXPORT holdfast_code
holdfast_read_box(const holdfast_checkpoint* checkpoint, size_t leaf,
                  size_t rank, const int64_t* origin, const int64_t* shape,
                  void* target, size_t target_bytes);
// A string, bytes, JSON or object leaf: `*bytes` of them and a zero byte, for
// holdfast_free. `bytes` may be null.
HOLDFAST_EXPORT holdfast_code
holdfast_read_text(const holdfast_checkpoint* checkpoint, size_t leaf,
                   char** text, size_t* bytes);

// ---- verifying

typedef struct holdfast_damage {
  size_t struct_size;
  const char* leaf;  // "" when it belongs to none
  const char* file;  // relative to the checkpoint
  int has_offset;
  uint64_t offset;
  holdfast_code code;
  const char* message;
} holdfast_damage;

// Reads and checks every byte. Damage is in the report, and what holdfast does
// not read (a dtype or an object that it lacks), which is neither damaged nor
// checked. Everything is as it was saved when both counts are 0; the call fails
// when nothing can be known.
// `options` may be null.
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

// Values by name. The keys of a name are joined with '.', and become nested
// dicts: "params.w" is {"params": {"w": ...}}.
HOLDFAST_EXPORT holdfast_code holdfast_state_new(holdfast_state** state);
// Null is fine.
HOLDFAST_EXPORT void holdfast_state_close(holdfast_state* state);
// A C-order array. `data` is borrowed until the state is closed; it may be null
// when there is no element.
HOLDFAST_EXPORT holdfast_code holdfast_state_add_array(
    holdfast_state* state, const char* name, const char* dtype, size_t rank,
    const int64_t* shape, const void* data);
// Python's int, float, bool and str.
HOLDFAST_EXPORT holdfast_code holdfast_state_add_int(holdfast_state* state,
                                                     const char* name,
                                                     int64_t value);
HOLDFAST_EXPORT holdfast_code holdfast_state_add_float(holdfast_state* state,
                                                       const char* name,
                                                       double value);
HOLDFAST_EXPORT holdfast_code holdfast_state_add_bool(holdfast_state* state,
                                                      const char* name,
                                                      int value);
// UTF-8, copied.
HOLDFAST_EXPORT holdfast_code holdfast_state_add_string(holdfast_state* state,
                                                        const char* name,
                                                        const char* text,
                                                        size_t bytes);

typedef struct holdfast_save_options {
  size_t struct_size;
  const char* format;       // "orbax" (null), "orbax-v1"
  const char* compression;  // "planes" (null), "zstd", "fast", "none"
  int zarr_format;          // 2 or 3; 0: the format's
  int use_files;            // not 0: no OCDBT, a directory a leaf
  int overwrite;            // not 0: a checkpoint at `path` is replaced
  int thread_count;         // 0: one a CPU
} holdfast_save_options;

// Writes a new checkpoint; it exists whole and durably, or not. `options` may
// be null. INVALID_ARGUMENT when two names meet at a value, or none was added.
HOLDFAST_EXPORT holdfast_code
holdfast_save(const char* path, const holdfast_state* state,
              const holdfast_save_options* options);

#ifdef __cplusplus
}  // extern "C"
#endif
