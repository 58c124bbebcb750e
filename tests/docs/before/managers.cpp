// Declares what the snippets of doc/managers.md use.
#include <holdfast/holdfast.h>
#include <holdfast/orbax/orbax.h>

extern int64_t n;
extern holdfast::Tree state;
void Train(holdfast::Tree& state);
