# find_package(maru) defines maru::maru, the client library.
include("${CMAKE_CURRENT_LIST_DIR}/maru-targets.cmake")
