# maru_fuzz_target(NAME SOURCES ... LINKS ...)
#
# SOURCES define LLVMFuzzerTestOneInput. In the fuzz preset this is the libFuzzer program NAME_fuzz;
# everywhere else it is NAME_fuzz_replay, which runs each file of fuzz/corpus/NAME/ once. Either way
# ctest runs the corpus (label fast), and an empty or missing corpus is a failure.
function(maru_fuzz_target name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;LINKS")
  set(corpus "${PROJECT_SOURCE_DIR}/fuzz/corpus/${name}")
  if(MARU_FUZZ)
    set(program ${name}_fuzz)
    maru_program(${program} SOURCES ${arg_SOURCES} LINKS ${arg_LINKS})
    target_link_options(${program} PRIVATE -fsanitize=fuzzer)
    set(arguments -runs=0)
  else()
    set(program ${name}_fuzz_replay)
    maru_program(${program}
      SOURCES ${arg_SOURCES} "${PROJECT_SOURCE_DIR}/fuzz/replay_main.cc" LINKS ${arg_LINKS})
    set(arguments)
  endif()
  add_test(NAME ${program} COMMAND ${program} ${arguments} "${corpus}")
  set_tests_properties(${program} PROPERTIES LABELS fast)
endfunction()
