// HOLDFAST_EXPORT: marks what a shared library of holdfast exports. Everything
// else is compiled hidden, so a name that is in no public header cannot be
// called.
//
// A public header opens its namespace with this macro, as libstdc++ does: every
// type, function, vtable and typeinfo declared there is then exported, and none
// can be forgotten, as would happen if each declaration had to be marked. The
// macro applies only to that opening: src/ opens the same namespace without it,
// and definitions there of public declarations have the header's visibility.
#pragma once

#if defined(__GNUC__)
#define HOLDFAST_EXPORT __attribute__((visibility("default")))
#else
#define HOLDFAST_EXPORT
#endif
