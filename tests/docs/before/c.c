// What the snippets of doc/c.md speak of.
#include <holdfast/c/holdfast.h>
#include <stdio.h>

extern float weights[6];
