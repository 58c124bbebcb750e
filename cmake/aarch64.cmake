# A toolchain for ARM on x86-64: Debian's cross compiler, and qemu to run tests.
#
#   dpkg --add-architecture arm64 && apt-get update
#   apt-get install g++-aarch64-linux-gnu qemu-user libzstd-dev:arm64 \
#     libblosc-dev:arm64 liblz4-dev:arm64 libsnappy-dev:arm64 zlib1g-dev:arm64 \
#     libssl-dev:arm64 libpcre2-dev:arm64 libpugixml-dev:arm64 libisal-dev:arm64 \
#     libxxhash-dev:arm64 \
#     libcurl4-openssl-dev:arm64 libgtest-dev:arm64 libgmock-dev:arm64
#
# scripts/test-long arm uses it.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64;-L;/)
set(ENV{PKG_CONFIG_LIBDIR}
  /usr/lib/aarch64-linux-gnu/pkgconfig:/usr/share/pkgconfig)
