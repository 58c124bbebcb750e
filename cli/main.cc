#include "cli/process.h"

int main(int argc, char** argv) {
  return holdfast::cli::RunProcess(argc, argv);
}
