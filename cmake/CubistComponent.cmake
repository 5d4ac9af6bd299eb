# cubist_component(<name> TARGET <target> HEADERS <file>... LINK <library>...)
#
# Adds a component: a header-only library that is called cubist::<target> (cubist::cubist for the
# core) here and after installation. It has its own export set (cubist-<name>), so that a consumer of
# one component needs only that component's dependencies.
include(GNUInstallDirs)
include(CubistHeaderChecks)

# cubist_headers(<variable> <folder or header>...): lists the headers in these folders of include/cubist, and below them.
function(cubist_headers variable)
  set(found)
  foreach(name IN LISTS ARGN)
    file(REAL_PATH "include/cubist/${name}" path)
    if(IS_DIRECTORY "${path}")
      file(GLOB_RECURSE path CONFIGURE_DEPENDS "${path}/*.hpp")
    endif()
    list(APPEND found ${path})
  endforeach()
  set(${variable} ${found} PARENT_SCOPE)
endfunction()

set(CUBIST_CMAKE_DIR "${CMAKE_INSTALL_DATADIR}/cmake/cubist")

function(cubist_component name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "TARGET" "HEADERS;LINK")

  add_library(${arg_TARGET} INTERFACE)
  string(REGEX REPLACE "^cubist_" "" exported "${arg_TARGET}")
  add_library(cubist::${exported} ALIAS ${arg_TARGET})
  set_target_properties(${arg_TARGET} PROPERTIES EXPORT_NAME ${exported})

  target_compile_features(${arg_TARGET} INTERFACE cxx_std_20)
  target_link_libraries(${arg_TARGET} INTERFACE ${arg_LINK})
  # A FILE_SET does not work: CMake 3.25 writes "${_IMPORT_PREFIX}/" in front of an absolute CMAKE_INSTALL_INCLUDEDIR.
  set(include "${CMAKE_CURRENT_SOURCE_DIR}/include")
  target_include_directories(${arg_TARGET} INTERFACE
    "$<BUILD_INTERFACE:${include}>" "$<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>")

  if(CUBIST_VERIFY_HEADERS)
    cubist_check_headers(${arg_TARGET} ${arg_HEADERS})
  endif()

  if(CUBIST_INSTALL)
    foreach(header IN LISTS arg_HEADERS)
      cmake_path(RELATIVE_PATH header BASE_DIRECTORY "${include}" OUTPUT_VARIABLE folder)
      cmake_path(REMOVE_FILENAME folder)
      install(FILES "${header}" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/${folder}" COMPONENT ${name})
    endforeach()
    install(TARGETS ${arg_TARGET} EXPORT cubist-${name})
    install(EXPORT cubist-${name}
      FILE cubist-${name}-targets.cmake
      NAMESPACE cubist::
      DESTINATION "${CUBIST_CMAKE_DIR}"
      COMPONENT ${name})
  endif()
endfunction()

# cubist_use_compiled(<target>): links a program of this project to the compiled library, if that is built.
function(cubist_use_compiled target)
  foreach(library IN ITEMS compiled compiled_mpi)
    if(TARGET cubist::${library})
      target_link_libraries(${target} PRIVATE cubist::${library})
    endif()
  endforeach()
endfunction()
