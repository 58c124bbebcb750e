// Declares what the snippets of doc/c.md use.
#include <holdfast/c/holdfast.h>
#include <stdio.h>

extern float weights[6];
