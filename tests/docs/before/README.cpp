// What the snippets of README.md speak of.
#include <iostream>
#include <vector>

extern std::vector<float> values;
