// HOLDFAST_EXPORT: what a shared library of holdfast shows of itself. All else
// is compiled hidden, so a name that no public header has cannot be called.
//
// A public header opens its namespace with it, as libstdc++ does: every type,
// function, vtable and typeinfo declared there is then exported, and none can
// be forgotten, as it can where each declaration has a mark of its own. The
// mark belongs only to that opening: src/ opens the same namespace without it,
// and what it defines of a public header has the header's visibility.
#pragma once

#if defined(__GNUC__)
#define HOLDFAST_EXPORT __attribute__((visibility("default")))
#else
#define HOLDFAST_EXPORT
#endif
