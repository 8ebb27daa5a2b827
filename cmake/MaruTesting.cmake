# Tests with GoogleTest (and RapidCheck for models). Labels: fast (seconds, every build), all
# others by name: model, sim, stress, install, integration, nightly.
find_package(GTest REQUIRED)
find_package(Python3 REQUIRED COMPONENTS Interpreter)
find_library(MARU_RAPIDCHECK_LIBRARY rapidcheck REQUIRED)
# Debian's Python packages belong to its own interpreter, which need not be the first in PATH.
find_program(MARU_DEBIAN_PYTHON python3 PATHS /usr/bin NO_DEFAULT_PATH REQUIRED)

# One precompiled header, shared by all test programs.
add_executable(maru_test_pch "${PROJECT_SOURCE_DIR}/cmake/test_pch.cc")
target_link_libraries(maru_test_pch PRIVATE maru_flags GTest::gtest GTest::gmock)
target_precompile_headers(maru_test_pch PRIVATE
  <gtest/gtest.h> <gmock/gmock.h> <string> <string_view> <vector> <memory> <atomic> <thread>)

# maru_test(NAME SOURCES ... LINKS ... [LABELS ...] [TIMEOUT seconds])
#
# One GoogleTest program and one ctest test of the same name; label fast unless LABELS says more.
# LINKS names libraries as usual; those of maru are replaced by their _points variant, and bring
# their _testing library along.
function(maru_test name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;LINKS;LABELS")
  if(NOT arg_LABELS)
    set(arg_LABELS fast)
  endif()
  add_executable(${name} ${arg_SOURCES})
  target_precompile_headers(${name} REUSE_FROM maru_test_pch)
  target_link_libraries(${name} PRIVATE maru_flags GTest::gtest_main GTest::gmock
    "${MARU_RAPIDCHECK_LIBRARY}")
  # Shared test code first: archives resolve from left to right.
  foreach(suffix IN ITEMS _testing_points _points)
    foreach(link IN LISTS arg_LINKS)
      if(TARGET ${link}${suffix})
        target_link_libraries(${name} PRIVATE ${link}${suffix})
      elseif(suffix STREQUAL "_points" AND (TARGET ${link} OR NOT link MATCHES "^maru_"))
        target_link_libraries(${name} PRIVATE ${link})
      endif()
    endforeach()
  endforeach()
  add_test(NAME ${name} COMMAND ${name})
  set_tests_properties(${name} PROPERTIES LABELS "${arg_LABELS}")
endfunction()

# The *_test.cc of a library's folder: maru_base -> base_test.
function(maru_folder_tests library path links)
  file(GLOB tests CONFIGURE_DEPENDS "${path}/*_test.cc")
  if(tests)
    string(REGEX REPLACE "^maru_" "" name ${library})
    maru_test(${name}_test SOURCES ${tests} LINKS ${library} ${links})
  endif()
endfunction()

# maru_script_test(NAME COMMAND ... [LABELS ...]): a test that is a command; Python3::Interpreter
# stands for python.
# A script that finds nothing to try ends with 77, which ctest tells as skipped.
function(maru_script_test name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "COMMAND;LABELS")
  if(NOT arg_LABELS)
    set(arg_LABELS fast)
  endif()
  add_test(NAME ${name} COMMAND ${arg_COMMAND})
  set_tests_properties(${name} PROPERTIES LABELS "${arg_LABELS}" SKIP_RETURN_CODE 77)
endfunction()
