# libmaru, what a C++ program embeds: the client and what it stands on, in one shared library that
# shows the symbols of include/maru/ alone. Installed with its headers and a package for
# find_package(maru); the target is maru::maru.
include(CMakePackageConfigHelpers)

# The folders that define what include/maru/ declares. Whatever else they need comes from the
# archives of the lower folders, as far as it is needed.
set(public_libraries)
foreach(library IN ITEMS maru_base maru_client)
  if(TARGET ${library})
    list(APPEND public_libraries ${library})
  endif()
endforeach()

add_library(maru_shared SHARED)
foreach(library IN LISTS public_libraries)
  target_sources(maru_shared PRIVATE $<TARGET_OBJECTS:${library}>)
  target_link_libraries(maru_shared PRIVATE ${library})
endforeach()
set_target_properties(maru_shared PROPERTIES
  OUTPUT_NAME maru
  EXPORT_NAME maru
  LINKER_LANGUAGE CXX
  VERSION ${PROJECT_VERSION}
  SOVERSION ${PROJECT_VERSION_MAJOR}
  LINK_DEPENDS "${PROJECT_SOURCE_DIR}/cmake/libmaru.map")
target_link_options(maru_shared PRIVATE
  "-Wl,--version-script=${PROJECT_SOURCE_DIR}/cmake/libmaru.map" -Wl,--no-undefined -Wl,--as-needed)
if(MARU_SANITIZE)
  # Sanitizers leave symbols for the program to define.
  set_target_properties(maru_shared PROPERTIES EXCLUDE_FROM_ALL ON)
  return()
endif()
target_compile_features(maru_shared INTERFACE cxx_std_20)
target_include_directories(maru_shared INTERFACE $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)

set(package_folder "${CMAKE_INSTALL_LIBDIR}/cmake/maru")
write_basic_package_version_file("${PROJECT_BINARY_DIR}/maru-config-version.cmake"
  COMPATIBILITY SameMinorVersion)
install(TARGETS maru_shared EXPORT maru LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}")
install(DIRECTORY "${PROJECT_SOURCE_DIR}/include/maru" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}")
install(EXPORT maru NAMESPACE maru:: FILE maru-targets.cmake DESTINATION "${package_folder}")
install(FILES "${PROJECT_SOURCE_DIR}/cmake/maru-config.cmake"
  "${PROJECT_BINARY_DIR}/maru-config-version.cmake" DESTINATION "${package_folder}")
