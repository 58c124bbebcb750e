// Renames that replace nothing, or exchange, by renameat2(2): which not every C
// library has (musl before 1.2.6), nor every kernel and file system (NFS, 9p
// and most of FUSE know no flags).
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

// Whether a call with flags may have failed only for having them. The same
// without flags then says whether it was anything else.
bool MayLackRenameFlags(int error);

// Renames a file or a directory where nothing is: EEXIST when anything is at
// `target`. Without RENAME_NOREPLACE a file is linked there (or, where there
// are no links either, takes the place of an empty one that is made first); a
// directory is renamed after a look, so that an empty directory that somebody
// makes in that moment is replaced: no other ever is.
int RenameNew(int directory, const char* source, const char* target);

}  // namespace holdfast
