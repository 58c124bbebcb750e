// Renames that replace nothing, and renames that exchange two names, with
// renameat2(2). Not every C library has that call (musl before 1.2.6), and not
// every kernel and file system supports its flags (NFS, 9p and most of FUSE do
// not).
//
// Thread-safety: any thread. Errors: 0, or an errno.
#pragma once

namespace holdfast {

// The kernel's RENAME_NOREPLACE and RENAME_EXCHANGE.
inline constexpr unsigned kRenameNoReplace = 1;
inline constexpr unsigned kRenameExchange = 2;

// Makes the call. Returns 0, or -1 with errno set. Names are relative to
// `directory`.
int RenameWithFlags(int directory, const char* source, const char* target,
                    unsigned flags);

// Returns whether a call with flags may have failed only because of the flags.
// The same call without flags then shows whether there was another reason.
bool MayLackRenameFlags(int error);

// Renames a file or a directory to a free name. EEXIST if anything is at
// `target`.
//
// Without RENAME_NOREPLACE, a file is linked to the new name; without links
// either, it replaces an empty file that is created first. A directory is
// renamed after a check that the name is free: an empty directory that is
// created at that very moment is replaced, but nothing else.
int RenameNew(int directory, const char* source, const char* target);

}  // namespace holdfast
