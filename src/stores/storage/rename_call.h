// Renames that replace nothing, or that exchange names, by renameat2(2). Not
// every C library has that call (musl before 1.2.6), and not every kernel and
// file system supports its flags (NFS, 9p and most of FUSE do not).
//
// Thread-safety: any thread. Errors: 0, or an errno.
#pragma once

namespace holdfast {

// The kernel's RENAME_NOREPLACE and RENAME_EXCHANGE.
inline constexpr unsigned kRenameNoReplace = 1;
inline constexpr unsigned kRenameExchange = 2;

// The call itself: 0, or -1 with errno. Names are relative to `directory`.
int RenameWithFlags(int directory, const char* source, const char* target,
                    unsigned flags);

// Whether a call with flags may have failed only because it had flags. The same
// call without flags then shows whether there was another reason.
bool MayLackRenameFlags(int error);

// Renames a file or a directory to a free name: EEXIST when anything is at
// `target`. Without RENAME_NOREPLACE a file is linked to the name (or, where
// there are no links either, replaces an empty file that is created first); a
// directory is renamed after a check, so that an empty directory that is
// created at that very moment is replaced, but never any other.
int RenameNew(int directory, const char* source, const char* target);

}  // namespace holdfast
