/* Lists a checkpoint from plain C: prints the name, kind, dtype and shape of
 * each leaf. Then reads the float32 array NAME and prints its sum.
 *
 *   example_c_read_checkpoint PATH [NAME] */
#include <holdfast/c/holdfast.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int Fail(void) {
  fprintf(stderr, "%s: %s\n", holdfast_code_name(holdfast_last_error_code()),
          holdfast_last_error());
  return 1;
}

static int List(const holdfast_checkpoint* checkpoint) {
  size_t count = 0;
  if (holdfast_leaf_count(checkpoint, &count) != HOLDFAST_OK) return Fail();
  for (size_t leaf = 0; leaf < count; ++leaf) {
    holdfast_leaf_info info = {.struct_size = sizeof info};
    if (holdfast_leaf(checkpoint, leaf, &info) != HOLDFAST_OK) return Fail();
    printf("%s: %s", info.name, info.kind);
    if (info.dtype != NULL) printf(" %s", info.dtype);
    for (size_t i = 0; i < info.rank; ++i) {
      printf("%s%lld", i == 0 ? " " : "x", (long long)info.shape[i]);
    }
    printf("\n");
  }
  return 0;
}

static int PrintSum(const holdfast_checkpoint* checkpoint, const char* name) {
  size_t leaf = 0, bytes = 0;
  holdfast_leaf_info info = {.struct_size = sizeof info};
  if (holdfast_find(checkpoint, name, &leaf) != HOLDFAST_OK ||
      holdfast_leaf(checkpoint, leaf, &info) != HOLDFAST_OK ||
      holdfast_leaf_bytes(checkpoint, leaf, &bytes) != HOLDFAST_OK) {
    return Fail();
  }
  if (strcmp(info.dtype, "float32") != 0) {
    fprintf(stderr, "%s: %s, not float32\n", name, info.dtype);
    return 1;
  }
  float* values = malloc(bytes);
  if (values == NULL && bytes > 0) return 1;
  const holdfast_code code = holdfast_read(checkpoint, leaf, values, bytes);
  double sum = 0;
  for (size_t i = 0; code == HOLDFAST_OK && i < bytes / sizeof *values; ++i) {
    sum += values[i];
  }
  free(values);
  if (code != HOLDFAST_OK) return Fail();
  printf("sum of %s: %g\n", name, sum);
  return 0;
}

int main(int argc, char** argv) {
  if (argc != 2 && argc != 3) {
    fprintf(stderr, "usage: %s PATH [NAME]\n", argv[0]);
    return 2;
  }
  holdfast_checkpoint* checkpoint = NULL;
  if (holdfast_open(argv[1], NULL, &checkpoint) != HOLDFAST_OK) return Fail();
  int status = List(checkpoint);
  if (status == 0 && argc == 3) status = PrintSum(checkpoint, argv[2]);
  holdfast_close(checkpoint);
  return status;
}
