# cubist_component(<name> TARGET <target> HEADERS <file>... LINK <library>...)
#
# One component: a header-only library, known as cubist::<target> (cubist::cubist for the core)
# here and after installation, in an export set of its own (cubist-<name>), so that a consumer of
# one component needs only that component's dependencies.
include(GNUInstallDirs)

# cubist_headers(<variable> <folder or header>...): the headers in these folders of include/cubist, and below them.
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
  target_sources(${arg_TARGET} INTERFACE
    FILE_SET HEADERS
    BASE_DIRS "${CMAKE_CURRENT_SOURCE_DIR}/include"
    FILES ${arg_HEADERS})

  if(CUBIST_VERIFY_HEADERS)
    # CMake makes the target that compiles each header alone, and gives it no options of its own.
    set(verification ${arg_TARGET}_verify_interface_header_sets)
    set_target_properties(${arg_TARGET} PROPERTIES VERIFY_INTERFACE_HEADER_SETS ON)
    get_target_property(warnings cubist_warnings INTERFACE_COMPILE_OPTIONS)
    target_compile_options(${arg_TARGET} INTERFACE
      "$<BUILD_INTERFACE:$<$<STREQUAL:$<TARGET_PROPERTY:NAME>,${verification}>:${warnings}>>")
    add_custom_target(${arg_TARGET}_headers ALL)
    add_dependencies(${arg_TARGET}_headers ${verification})
  endif()

  if(CUBIST_INSTALL)
    install(TARGETS ${arg_TARGET} EXPORT cubist-${name}
      FILE_SET HEADERS DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}")
    install(EXPORT cubist-${name}
      FILE cubist-${name}-targets.cmake
      NAMESPACE cubist::
      DESTINATION "${CUBIST_CMAKE_DIR}")
  endif()
endfunction()
