/* Lets allocations fail in a program that is started with this library in
 * LD_PRELOAD. tests/resources/failing_malloc.py sets the variables:
 *
 * HOLDFAST_FAIL_MALLOC_AT     k: the k-th allocation fails (from 1)
 * HOLDFAST_FAIL_MALLOC_ABOVE  n: each later one of more than n bytes fails, too
 * HOLDFAST_SPARE_MALLOC       START-END,...: calls from these addresses never
 *                             fail
 * HOLDFAST_COUNT_MALLOC       the count is written to this file at the end
 *
 * START and END are hexadecimal addresses in the program's file.
 *
 * The allocations of all threads are counted from the start of main. Earlier
 * failures, in the loader and in static initializers, could not be caught.
 * Needs glibc, whose own functions (__libc_malloc and so on) allocate the
 * memory. Thread-safety: any thread.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <link.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

extern void* __libc_malloc(size_t);
extern void* __libc_calloc(size_t, size_t);
extern void* __libc_realloc(void*, size_t);
extern void* __libc_memalign(size_t, size_t);

typedef int (*Main)(int, char**, char**);
typedef int (*StartMain)(Main, int, char**, void (*)(void), void (*)(void),
                         void (*)(void), void*);

static _Atomic uint64_t allocation_count;
static uint64_t fail_at;                 /* 0: none fails */
static uint64_t fail_above = UINT64_MAX; /* UINT64_MAX: only one fails */
static _Atomic int has_begun;
static Main real_main;

enum { SPARED_MAX = 16, FRAMES_MAX = 12 };
static struct { uintptr_t start, end; } spared[SPARED_MAX];
static int spared_count;

static uint64_t number(const char* name, uint64_t otherwise) {
  const char* text = getenv(name);
  return text != NULL ? strtoull(text, NULL, 10) : otherwise;
}

/* Takes the load address of the first object, which is the program, and ends
 * the iteration. */
static int take_base(struct dl_phdr_info* info, size_t size, void* base) {
  (void)size;
  *(uintptr_t*)base = info->dlpi_addr;
  return 1;
}

static void read_spared(const char* text) {
  uintptr_t base = 0;
  dl_iterate_phdr(take_base, &base);
  while (text != NULL && *text != '\0' && spared_count < SPARED_MAX) {
    char* end = NULL;
    spared[spared_count].start = base + strtoull(text, &end, 16);
    spared[spared_count++].end = base + strtoull(end + 1, &end, 16);
    text = *end == ',' ? end + 1 : NULL;
  }
  void* frames[1];
  backtrace(frames, 1); /* its first call allocates memory */
}

static int is_spared(void) {
  if (spared_count == 0) return 0;
  void* frames[FRAMES_MAX];
  const int count = backtrace(frames, FRAMES_MAX);
  for (int i = 0; i < count; ++i) {
    const uintptr_t place = (uintptr_t)frames[i];
    for (int j = 0; j < spared_count; ++j) {
      if (place >= spared[j].start && place < spared[j].end) return 1;
    }
  }
  return 0;
}

static int begin(int argc, char** argv, char** environment) {
  fail_at = number("HOLDFAST_FAIL_MALLOC_AT", 0);
  fail_above = number("HOLDFAST_FAIL_MALLOC_ABOVE", UINT64_MAX);
  read_spared(getenv("HOLDFAST_SPARE_MALLOC"));
  has_begun = 1;
  return real_main(argc, argv, environment);
}

/* glibc's function that calls static initializers and then main. */
int __libc_start_main(Main main, int argc, char** argv, void (*init)(void),
                      void (*fini)(void), void (*rtld_fini)(void), void* end) {
  const StartMain real = (StartMain)dlsym(RTLD_NEXT, "__libc_start_main");
  real_main = main;
  return real(begin, argc, argv, init, fini, rtld_fini, end);
}

static int fails(size_t byte_count) {
  if (!has_begun) return 0;
  const uint64_t index = atomic_fetch_add(&allocation_count, 1) + 1;
  if (fail_at == 0 || index < fail_at) return 0;
  if (index > fail_at && byte_count <= fail_above) return 0;
  if (is_spared()) return 0;
  errno = ENOMEM;
  return 1;
}

void* malloc(size_t byte_count) {
  return fails(byte_count) ? NULL : __libc_malloc(byte_count);
}

void* calloc(size_t count, size_t byte_count) {
  size_t total = 0;
  if (__builtin_mul_overflow(count, byte_count, &total)) total = SIZE_MAX;
  return fails(total) ? NULL : __libc_calloc(count, byte_count);
}

void* realloc(void* block, size_t byte_count) {
  /* With 0 bytes, realloc frees the block, which cannot fail. */
  const int may_fail = block == NULL || byte_count > 0;
  if (may_fail && fails(byte_count)) return NULL;
  return __libc_realloc(block, byte_count);
}

void* memalign(size_t alignment, size_t byte_count) {
  return fails(byte_count) ? NULL : __libc_memalign(alignment, byte_count);
}

void* aligned_alloc(size_t alignment, size_t byte_count) {
  return memalign(alignment, byte_count);
}

int posix_memalign(void** block, size_t alignment, size_t byte_count) {
  const int is_power = alignment != 0 && (alignment & (alignment - 1)) == 0;
  if (!is_power || alignment % sizeof(void*) != 0) return EINVAL;
  const int before = errno; /* posix_memalign does not set errno */
  void* const made = memalign(alignment, byte_count);
  errno = before;
  if (made == NULL) return ENOMEM;
  *block = made;
  return 0;
}

__attribute__((destructor)) static void write_count(void) {
  const uint64_t count = allocation_count;
  const char* path = getenv("HOLDFAST_COUNT_MALLOC");
  if (path == NULL) return;
  char text[32];
  const int length = snprintf(text, sizeof text, "%ju\n", (uintmax_t)count);
  const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (fd < 0 || write(fd, text, (size_t)length) != length) _exit(125);
  close(fd);
}
