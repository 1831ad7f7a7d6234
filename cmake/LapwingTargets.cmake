# Flags and the two helpers that every folder uses.
add_library(lapwing_flags INTERFACE)
target_compile_definitions(lapwing_flags INTERFACE _GNU_SOURCE)
target_include_directories(lapwing_flags INTERFACE ${PROJECT_SOURCE_DIR} ${PROJECT_BINARY_DIR}/generated)
target_compile_options(lapwing_flags INTERFACE
  -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wundef -Wvla -Wformat=2
  -Wconversion -Wno-sign-conversion -Wdouble-promotion -Wcast-qual -Wnull-dereference -Wswitch-enum
  -Wpointer-arith -Wwrite-strings -fno-common -fvisibility=hidden)
if(LAPWING_WERROR)
  target_compile_options(lapwing_flags INTERFACE -Werror)
endif()
if(NOT LAPWING_SANITIZE STREQUAL "")
  target_compile_options(lapwing_flags INTERFACE "-fsanitize=${LAPWING_SANITIZE}" -fno-omit-frame-pointer)
  target_link_options(lapwing_flags INTERFACE "-fsanitize=${LAPWING_SANITIZE}")
endif()
if(LAPWING_FUZZ)
  target_compile_options(lapwing_flags INTERFACE -fsanitize=fuzzer-no-link)
endif()

# lapwing_library(<name> [SOURCES ...] [LINKS ...]): a static library of one folder.
function(lapwing_library name)
  cmake_parse_arguments(A "" "" "SOURCES;LINKS" ${ARGN})
  add_library(${name} STATIC ${A_SOURCES})
  target_link_libraries(${name} PRIVATE lapwing_flags PUBLIC ${A_LINKS})
endfunction()

# lapwing_program(<name> SOURCES ... LINKS ...)
function(lapwing_program name)
  cmake_parse_arguments(A "" "" "SOURCES;LINKS" ${ARGN})
  add_executable(${name} ${A_SOURCES})
  target_link_libraries(${name} PRIVATE lapwing_flags ${A_LINKS})
endfunction()

# lapwing_test(<name> LABELS ... SOURCES ... LINKS ...): one cmocka binary = one CTest entry.
function(lapwing_test name)
  cmake_parse_arguments(A "" "TIMEOUT" "LABELS;SOURCES;LINKS" ${ARGN})
  if(NOT A_TIMEOUT)
    set(A_TIMEOUT 60)
  endif()
  add_executable(${name} ${A_SOURCES})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  target_link_libraries(${name} PRIVATE lapwing_flags ${A_LINKS} PkgConfig::cmocka m)
  target_compile_definitions(${name} PRIVATE LAPWING_SOURCE_DIR="${PROJECT_SOURCE_DIR}" LAPWING_BUILD_DIR="${CMAKE_BINARY_DIR}")
  add_test(NAME ${name} COMMAND ${name})
  set_tests_properties(${name} PROPERTIES LABELS "${A_LABELS}" TIMEOUT ${A_TIMEOUT})
endfunction()

# lapwing_script_test(<name> LABELS ... COMMAND ... [TIMEOUT n] [SERIAL]): a script as a CTest entry.
# It finds the build tree in LAPWING_BUILD_DIR and the sources in LAPWING_SOURCE_DIR.
function(lapwing_script_test name)
  cmake_parse_arguments(A "SERIAL" "TIMEOUT" "LABELS;COMMAND" ${ARGN})
  if(NOT A_TIMEOUT)
    set(A_TIMEOUT 120)
  endif()
  add_test(NAME ${name} COMMAND ${A_COMMAND} WORKING_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR})
  set_tests_properties(${name} PROPERTIES LABELS "${A_LABELS}" TIMEOUT ${A_TIMEOUT}
    ENVIRONMENT "LAPWING_BUILD_DIR=${CMAKE_BINARY_DIR};LAPWING_SOURCE_DIR=${PROJECT_SOURCE_DIR}")
  if(A_SERIAL)
    set_tests_properties(${name} PROPERTIES RUN_SERIAL ON)
  endif()
endfunction()
