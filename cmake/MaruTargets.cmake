# maru_library(NAME FOLDER [LINKS lib...])
#
# One static, position-independent library NAME from the *.cc of FOLDER (relative to the caller),
# without its *_test.cc and what tests share, test_*.cc. LINKS names what the folder may use: other
# maru libraries (left out while their folder has no sources yet) and external ones. A folder of
# headers alone becomes an interface library, a folder without files is skipped.
#
# For tests there is NAME_points: the same sources with MARU_SEQUENCE_POINTS=1, an alias of NAME
# where the whole build has them. The *_test.cc of the folder become one test program, see
# maru_folder_tests in MaruTesting.cmake; what they share with the tests of other folders lies in
# test_*.cc, the library NAME_testing (and NAME_testing_points), which every test that links NAME
# gets as well. It has no tests in it: benchmarks and fuzz targets link it too.
function(maru_library name folder)
  cmake_parse_arguments(PARSE_ARGV 2 arg "" "" "LINKS")
  set(path "${CMAKE_CURRENT_SOURCE_DIR}/${folder}")
  file(GLOB sources CONFIGURE_DEPENDS "${path}/*.cc")
  file(GLOB headers CONFIGURE_DEPENDS "${path}/*.h")
  file(GLOB shared_by_tests CONFIGURE_DEPENDS "${path}/test_*.cc")
  list(FILTER sources EXCLUDE REGEX "(_test|/test_[^/]*)\\.cc$")
  if(NOT sources AND NOT headers)
    return()
  endif()

  _maru_one_library(${name} "" "${sources}" "${arg_LINKS}")
  if(MARU_SEQUENCE_POINTS)
    add_library(${name}_points ALIAS ${name})
  else()
    _maru_one_library(${name}_points "_points" "${sources}" "${arg_LINKS}")
  endif()
  if(shared_by_tests)
    _maru_one_library(${name}_testing "" "${shared_by_tests}" ${name})
    set_target_properties(${name}_testing PROPERTIES EXCLUDE_FROM_ALL ON)
    if(MARU_SEQUENCE_POINTS)
      add_library(${name}_testing_points ALIAS ${name}_testing)
    else()
      _maru_one_library(${name}_testing_points "_points" "${shared_by_tests}" ${name})
    endif()
  endif()
  if(MARU_BUILD_TESTS)
    maru_folder_tests(${name} "${path}" "${arg_LINKS}")
  endif()
endfunction()

# Defines one library; SUFFIX is appended to those of LINKS that are libraries of maru.
function(_maru_one_library name suffix sources links)
  if(sources)
    add_library(${name} STATIC ${sources})
    set(scope PUBLIC)
  else()
    add_library(${name} INTERFACE)
    set(scope INTERFACE)
  endif()
  target_link_libraries(${name} ${scope} maru_flags)
  if(MARU_SEQUENCE_POINTS OR suffix)
    target_compile_definitions(${name} ${scope} MARU_SEQUENCE_POINTS=1)
  endif()
  if(suffix AND sources)
    set_target_properties(${name} PROPERTIES EXCLUDE_FROM_ALL ON)
  endif()
  foreach(link IN LISTS links)
    if(NOT link MATCHES "^maru_")
      target_link_libraries(${name} ${scope} ${link})
    elseif(TARGET ${link}${suffix})
      target_link_libraries(${name} ${scope} ${link}${suffix})
    endif()
  endforeach()
endfunction()

# maru_program(NAME SOURCES ... LINKS ...): a program with the flags of the project.
function(maru_program name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;LINKS")
  add_executable(${name} ${arg_SOURCES})
  target_link_libraries(${name} PRIVATE maru_flags ${arg_LINKS})
endfunction()
