// The version of the library the program was built with.
#pragma once

#define HOLDFAST_VERSION "0.1.0"
