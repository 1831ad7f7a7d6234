# Every choice a builder has, in one place.
include(FeatureSummary)
include(GNUInstallDirs)

option(LAPWING_WERROR "Treat warnings as errors" OFF)
option(LAPWING_TESTS "Build the tests" ON)
set(LAPWING_SANITIZE "" CACHE STRING "Sanitizers to build with: address,undefined | thread")
option(LAPWING_FUZZ "Build libFuzzer targets (clang only)" OFF)
add_feature_info(warnings-as-errors LAPWING_WERROR "")
add_feature_info(tests LAPWING_TESTS "")

set(CMAKE_C_STANDARD 11)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS ON) # _GNU_SOURCE interfaces: dladdr1, memfd_create, argp
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib)
set(CMAKE_ARCHIVE_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE RelWithDebInfo)
endif()

find_package(Threads REQUIRED)
find_package(SQLite3 3.40 REQUIRED)
find_package(PkgConfig REQUIRED)
pkg_check_modules(yajl REQUIRED IMPORTED_TARGET yajl)
pkg_check_modules(zlib REQUIRED IMPORTED_TARGET zlib)
pkg_check_modules(ncursesw REQUIRED IMPORTED_TARGET ncursesw)
pkg_check_modules(libelf REQUIRED IMPORTED_TARGET libelf)
pkg_check_modules(libpcap REQUIRED IMPORTED_TARGET libpcap)
pkg_check_modules(libibverbs REQUIRED libibverbs>=1.14.44) # its headers; the tracer is not linked to it

# cmocka 1.1.5 exports variables only: wrap it once.
if(LAPWING_TESTS)
  pkg_check_modules(cmocka REQUIRED IMPORTED_TARGET cmocka)
endif()
