# Options and flags that hold for every target.
option(MARU_WERROR "Treat warnings as errors" OFF)
option(MARU_BUILD_TESTS "Build the unit tests" ON)
option(MARU_SEQUENCE_POINTS "Compile sequence points into all libraries" OFF)
option(MARU_PYTHON "Build the native module of the Python packages" OFF)
option(MARU_PORTABLE "Programs that need glibc and nothing else, for the wheel" OFF)
option(MARU_FUZZ "Build fuzz targets with libFuzzer instead of corpus replays" OFF)
set(MARU_SANITIZE "" CACHE STRING "Sanitizers for all targets, as in -fsanitize=")

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE RelWithDebInfo CACHE STRING "" FORCE)
endif()

find_program(MARU_CCACHE ccache)
if(MARU_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # The sloppiness lets files that use a precompiled header be cached; relative paths let clones of
  # one repository share what they compiled.
  set(CMAKE_CXX_COMPILER_LAUNCHER env
    CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime
    "CCACHE_BASEDIR=${PROJECT_SOURCE_DIR}" CCACHE_NOHASHDIR=1 "${MARU_CCACHE}")
endif()

find_package(Threads REQUIRED)
find_path(MARU_XXHASH_INCLUDE xxhash.h REQUIRED)
if(MARU_PORTABLE)
  include(MaruPortable)
else()
  find_library(MARU_zmq_LIBRARY zmq REQUIRED)
  find_library(MARU_sodium_LIBRARY sodium REQUIRED)
endif()

# maru_flags carries the flags; every target of ours links it privately.
add_library(maru_flags INTERFACE)
target_include_directories(maru_flags INTERFACE
  "${PROJECT_SOURCE_DIR}/include" "${PROJECT_SOURCE_DIR}/src")
# Designated initializers leave members at their defaults on purpose.
target_compile_options(maru_flags INTERFACE -Wall -Wextra -Wshadow -Wnon-virtual-dtor
  -Wno-missing-field-initializers
  $<$<BOOL:${MARU_WERROR}>:-Werror>
  $<$<CXX_COMPILER_ID:Clang>:-Wthread-safety>
  # g++ takes words of a mapping, which no declaration it sees has made, for objects of size 0.
  $<$<CXX_COMPILER_ID:GNU>:-Wno-stringop-overflow>
  $<$<CXX_COMPILER_ID:GNU>:-Wno-array-bounds>)
target_link_libraries(maru_flags INTERFACE Threads::Threads)

# Sanitizers hold for everything, so that no target is left out by mistake.
if(MARU_SANITIZE)
  add_compile_options(-fsanitize=${MARU_SANITIZE} -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${MARU_SANITIZE})
  if(MARU_SANITIZE MATCHES undefined)
    add_compile_options(-fno-sanitize-recover=undefined)
  endif()
endif()
if(MARU_FUZZ)
  add_compile_options(-fsanitize=fuzzer-no-link)
endif()
