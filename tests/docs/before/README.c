// What the snippets of README.md speak of.
extern void* memory;
