// HOLDFAST_EXPORT: marks what a shared library of holdfast exports. Everything
// else is compiled with hidden visibility, so a program cannot call a function
// that no public header declares.
//
// A public header opens its namespace with this macro, as libstdc++ does, so
// that every type, function, vtable and typeinfo declared there is exported. (A
// mark on each declaration would be forgotten somewhere.) The macro applies
// only to that opening: src/ opens the same namespace without it, and
// definitions there of public declarations have the header's visibility.
#pragma once

#if defined(__GNUC__)
#define HOLDFAST_EXPORT __attribute__((visibility("default")))
#else
#define HOLDFAST_EXPORT
#endif
