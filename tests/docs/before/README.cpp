// Declares what the snippets of README.md use.
#include <iostream>
#include <vector>

extern std::vector<float> values;
