# Third-party libraries, all from Debian 12; why each: doc/dependencies.md.
find_package(Threads REQUIRED)
find_package(ZLIB REQUIRED)
find_package(OpenSSL REQUIRED COMPONENTS Crypto)
find_package(nlohmann_json 3.11 REQUIRED)
find_package(PkgConfig REQUIRED)
pkg_check_modules(zstd_pc REQUIRED IMPORTED_TARGET libzstd)
pkg_check_modules(blosc_pc REQUIRED IMPORTED_TARGET blosc)
find_path(MSGPACK_INCLUDE_DIR msgpack.hpp REQUIRED)

# Private wrappers: the compile side only reaches the folder that names it.
add_library(holdfast_zstd INTERFACE)
target_link_libraries(holdfast_zstd INTERFACE PkgConfig::zstd_pc)
add_library(holdfast_blosc INTERFACE)
target_link_libraries(holdfast_blosc INTERFACE PkgConfig::blosc_pc)
add_library(holdfast_msgpack INTERFACE)
target_include_directories(holdfast_msgpack SYSTEM INTERFACE
  ${MSGPACK_INCLUDE_DIR})
target_compile_definitions(holdfast_msgpack INTERFACE MSGPACK_NO_BOOST)

if(HOLDFAST_BUILD_TESTS)
  find_package(GTest REQUIRED)
endif()
