# cubist::compiled, and cubist::compiled_mpi where there is MPI: libraries of the instances that include/cubist/compiled.hpp
# lists, for every scheme of the catalogue. A program that links one has a macro whose value is the version of the library.

# The names of the schemes are read where they are written.
set(catalogue "${PROJECT_SOURCE_DIR}/include/cubist/scheme/catalogue.hpp")
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${catalogue}")
file(READ "${catalogue}" text)
if(NOT text MATCHES "using Catalogue = Schemes<([^>]*)>")
  message(FATAL_ERROR "${catalogue} has no line `using Catalogue = Schemes<`, so the compiled library has no schemes")
endif()
string(REGEX MATCHALL "[A-Za-z0-9_]+" CUBIST_SCHEMES "${CMAKE_MATCH_1}")
foreach(scheme IN LISTS CUBIST_LIBRARY_SCHEMES)
  if(NOT scheme IN_LIST CUBIST_SCHEMES)
    message(FATAL_ERROR "CUBIST_LIBRARY_SCHEMES has \"${scheme}\", which is none of the catalogue, so the compiled library can't "
      "have it; use ${CUBIST_SCHEMES}")
  endif()
endforeach()
if(CUBIST_LIBRARY_SCHEMES)
  set(CUBIST_SCHEMES ${CUBIST_LIBRARY_SCHEMES})
endif()
list(TRANSFORM CUBIST_SCHEMES REPLACE "(.+)" "X(\\1)" OUTPUT_VARIABLE items)
list(JOIN items " " items)
set(CUBIST_COMPILED_DIR "${PROJECT_BINARY_DIR}/compiled")
file(CONFIGURE OUTPUT "${CUBIST_COMPILED_DIR}/include/cubist/compiled_schemes.hpp" @ONLY CONTENT
"// The schemes that the compiled library has.
#pragma once
#define CUBIST_COMPILED_SCHEMES(X) @items@
")
math(EXPR CUBIST_LIBRARY_VERSION "${PROJECT_VERSION_MAJOR} * 10000 + ${PROJECT_VERSION_MINOR} * 100 + ${PROJECT_VERSION_PATCH}")

# cubist_compiled_library(<target> MACRO <macro> BACKENDS <backend>... LINK <target>)
#
# One source for each scheme and backend, so that as many compilers run as there are cores.
function(cubist_compiled_library target)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "MACRO;LINK" "BACKENDS")
  set(sources)
  foreach(backend IN LISTS arg_BACKENDS)
    string(TOLOWER "${backend}" header)
    foreach(scheme IN LISTS CUBIST_SCHEMES ITEMS launch)
      set(source "${CUBIST_COMPILED_DIR}/${header}_${scheme}.cpp")
      set(instances "CUBIST_INSTANCES(template, ${scheme}, ${backend})")
      if(scheme STREQUAL launch)
        set(instances "CUBIST_LAUNCH_INSTANCE_OF_${backend}(template)")
      endif()
      file(CONFIGURE OUTPUT "${source}" @ONLY CONTENT
"#include <cubist/backend/@header@.hpp>
#include <cubist/nn/transformer/transformer_block.hpp>
#include <cubist/compiled.hpp>
namespace cubist::CUBIST_ABI
{
@instances@
}
")
      list(APPEND sources "${source}")
      if(scheme STREQUAL launch) # has the functions that are no templates, too; the other sources use the library's
        set_source_files_properties("${source}" PROPERTIES COMPILE_DEFINITIONS CUBIST_BUILDS_LIBRARY)
      else()
        set_source_files_properties("${source}" PROPERTIES COMPILE_DEFINITIONS "CUBIST_COMPILED=${CUBIST_LIBRARY_VERSION};${arg_MACRO}=${CUBIST_LIBRARY_VERSION}")
      endif()
    endforeach()
  endforeach()

  string(REGEX REPLACE "^cubist_" "" exported "${target}")
  add_library(${target} ${sources})
  add_library(cubist::${exported} ALIAS ${target})
  set_target_properties(${target} PROPERTIES
    EXPORT_NAME ${exported} POSITION_INDEPENDENT_CODE ON UNITY_BUILD OFF VERSION ${PROJECT_VERSION}
    SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
  target_link_libraries(${target} PUBLIC ${arg_LINK} PRIVATE $<BUILD_INTERFACE:cubist_warnings>)
  target_compile_definitions(${target} INTERFACE ${arg_MACRO}=${CUBIST_LIBRARY_VERSION})
  target_include_directories(${target} PUBLIC
    "$<BUILD_INTERFACE:${CUBIST_COMPILED_DIR}/include>" "$<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>")

  if(CUBIST_INSTALL)
    install(TARGETS ${target} EXPORT cubist-${exported} COMPONENT ${exported})
    install(EXPORT cubist-${exported}
      FILE cubist-${exported}-targets.cmake
      NAMESPACE cubist::
      DESTINATION "${CUBIST_CMAKE_DIR}"
      COMPONENT ${exported})
    install(FILES "${PROJECT_SOURCE_DIR}/cmake/cubist-${exported}.cmake" DESTINATION "${CUBIST_CMAKE_DIR}" COMPONENT ${exported})
  endif()
endfunction()

cubist_compiled_library(cubist_compiled MACRO CUBIST_COMPILED BACKENDS Threads Simulated LINK cubist)
if(CUBIST_INSTALL)
  install(FILES "${CUBIST_COMPILED_DIR}/include/cubist/compiled_schemes.hpp"
    DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/cubist" COMPONENT compiled)
endif()
if(TARGET cubist_mpi)
  cubist_compiled_library(cubist_compiled_mpi MACRO CUBIST_COMPILED_MPI BACKENDS Mpi LINK cubist_compiled)
  target_link_libraries(cubist_compiled_mpi PUBLIC cubist_mpi)
endif()
