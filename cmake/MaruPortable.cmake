# For programs that are to run where neither our -dev packages nor their libraries are: libzmq,
# libsodium and the C++ library are compiled in.
#
# Debian's libzmq.a has transports and a login that this project never asks it for (PGM, NORM,
# Kerberos), and there is no archive of the last. What it would call there becomes one function that
# stops the program.
find_library(MARU_zmq_archive libzmq.a REQUIRED)
find_library(MARU_sodium_LIBRARY libsodium.a REQUIRED)
find_library(MARU_bsd_archive libbsd.a REQUIRED)
set(MARU_COMPILED_IN libzmq3-dev libsodium-dev libbsd-dev libstdc++-12-dev libstdc++-14-dev
  libcli11-dev libxxhash-dev)

execute_process(COMMAND "${CMAKE_NM}" --undefined-only "${MARU_zmq_archive}"
  OUTPUT_VARIABLE undefined ERROR_QUIET COMMAND_ERROR_IS_FATAL ANY)
string(REGEX MATCHALL " U (gss_|GSS_|pgm_|Norm|NORM_)[A-Za-z0-9_]*" absent "${undefined}")
list(TRANSFORM absent REPLACE " U " "")
list(REMOVE_DUPLICATES absent)
list(REMOVE_ITEM absent pgm_init pgm_shutdown)  # called by each context
list(TRANSFORM absent PREPEND "-Wl,--defsym=")
list(TRANSFORM absent APPEND "=maru_absent_in_libzmq")

add_library(maru_portable OBJECT "${PROJECT_SOURCE_DIR}/cmake/portable.c")
add_library(maru_portable_zmq INTERFACE)
target_sources(maru_portable_zmq INTERFACE $<TARGET_OBJECTS:maru_portable>)
target_link_options(maru_portable_zmq INTERFACE ${absent})
target_link_libraries(maru_portable_zmq INTERFACE
  "${MARU_zmq_archive}" "${MARU_sodium_LIBRARY}" "${MARU_bsd_archive}")
set(MARU_zmq_LIBRARY maru_portable_zmq)

add_link_options(-static-libstdc++ -static-libgcc)
