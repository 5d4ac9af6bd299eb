# cubist::compiled, and cubist::compiled_mpi where there is MPI: libraries that contain the functions that are not templates, and
# the instances that headers list (CubistInstances.cmake), for every scheme of the catalogue. A program that links one gets a
# macro whose value is the library's version.

# The header of the catalogue is the one place that names the schemes.
set(catalogue "${PROJECT_SOURCE_DIR}/include/cubist/scheme/catalogue.hpp")
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${catalogue}")
file(READ "${catalogue}" text)
if(NOT text MATCHES "using Catalogue = Schemes<([^>]*)>")
  message(FATAL_ERROR "${catalogue} has no line `using Catalogue = Schemes<`, so the compiled library would have no schemes; "
    "write the line in this form")
endif()
string(REGEX MATCHALL "[A-Za-z0-9_]+" CUBIST_SCHEMES "${CMAKE_MATCH_1}")
foreach(scheme IN LISTS CUBIST_LIBRARY_SCHEMES)
  string(REGEX REPLACE "^DataParallel<(.*)>$" "\\1" one_mesh "${scheme}")
  if(NOT one_mesh IN_LIST CUBIST_SCHEMES)
    message(FATAL_ERROR "CUBIST_LIBRARY_SCHEMES lists \"${scheme}\", which the catalogue lacks, so the compiled library cannot "
      "contain it; use ${CUBIST_SCHEMES}, or DataParallel<...> of one of these")
  endif()
endforeach()
# With a data axis the library contains only the most general schemes, on the backends that train: Summa2D is Summa25D of depth
# 1, and Grid2D and Cube3D are meshes of Grid3D.
set(CUBIST_DATA_SCHEMES "DataParallel<Megatron1D>" "DataParallel<Summa25D>" "DataParallel<Grid3D>")
if(CUBIST_LIBRARY_SCHEMES)
  set(CUBIST_SCHEMES ${CUBIST_LIBRARY_SCHEMES})
  set(CUBIST_DATA_SCHEMES)
endif()
# Schemes with the same axes are compiled together, because much depends on the axes alone. CUBIST_MESHES lists a name for each
# set of axes, CUBIST_SCHEMES_ON_<name> its schemes, and CUBIST_AXES_OF_<name> the axes, as a scheme's header writes them.
set(CUBIST_MESHES)
set(CUBIST_DATA_MESHES) # those of CUBIST_DATA_SCHEMES
set(seen)
file(GLOB headers CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/include/cubist/scheme/*.hpp")
foreach(scheme IN LISTS CUBIST_SCHEMES CUBIST_DATA_SCHEMES)
  string(REGEX REPLACE "^DataParallel<(.*)>$" "\\1" one_mesh "${scheme}")
  set(axes)
  foreach(header IN LISTS headers)
    file(READ "${header}" text)
    if(text MATCHES "(using|struct) ${one_mesh}[ \n]" AND text MATCHES "using Axes = cubist::Axes<([^>]*)>")
      set(axes "${CMAKE_MATCH_1}")
    endif()
  endforeach()
  if(NOT axes)
    message(FATAL_ERROR "no header of include/cubist/scheme/ has ${one_mesh} with `using Axes = cubist::Axes<`, so the compiled "
      "library cannot name its meshes; write it in this form")
  endif()
  if(NOT scheme STREQUAL one_mesh)
    string(PREPEND axes "Data, ")
  endif()
  list(FIND seen "${axes}" at)
  if(at EQUAL -1)
    string(REGEX REPLACE "[<>]" "" mesh "${scheme}")
    list(APPEND seen "${axes}")
    list(APPEND CUBIST_MESHES ${mesh})
    set(CUBIST_AXES_OF_${mesh} "${axes}")
    set(CUBIST_SCHEMES_ON_${mesh} ${scheme})
    if(scheme IN_LIST CUBIST_DATA_SCHEMES)
      list(APPEND CUBIST_DATA_MESHES ${mesh})
    endif()
  else()
    list(GET CUBIST_MESHES ${at} mesh)
    list(APPEND CUBIST_SCHEMES_ON_${mesh} ${scheme})
  endif()
endforeach()

set(axes)
foreach(mesh IN LISTS CUBIST_MESHES)
  string(APPEND axes " X(${mesh}, ${CUBIST_AXES_OF_${mesh}})")
endforeach()
foreach(list IN ITEMS SCHEMES DATA_SCHEMES MESHES DATA_MESHES)
  set(items ${CUBIST_${list}})
  if(list STREQUAL "MESHES")
    list(REMOVE_ITEM items ${CUBIST_DATA_MESHES})
  endif()
  list(TRANSFORM items REPLACE "(.+)" "X(\\1, __VA_ARGS__)")
  list(JOIN items " " ${list})
endforeach()
set(CUBIST_COMPILED_DIR "${PROJECT_BINARY_DIR}/compiled")
file(CONFIGURE OUTPUT "${CUBIST_COMPILED_DIR}/include/cubist/core/compiled_schemes.hpp" @ONLY CONTENT
"// What the compiled library contains: schemes, and names of their meshes with the axes. DATA is on the backends that train.
#pragma once
#define CUBIST_COMPILED_AXES(X)@axes@
#define CUBIST_COMPILED_MESHES(X, ...) @MESHES@
#define CUBIST_COMPILED_DATA_MESHES(X, ...) @DATA_MESHES@
#define CUBIST_COMPILED_SCHEMES(X, ...) @SCHEMES@
#define CUBIST_COMPILED_DATA_SCHEMES(X, ...) @DATA_SCHEMES@
")
math(EXPR CUBIST_LIBRARY_VERSION "${PROJECT_VERSION_MAJOR} * 10000 + ${PROJECT_VERSION_MINOR} * 100 + ${PROJECT_VERSION_PATCH}")

# The glue between loops and products is barely optimized, so that it compiles in a third less time. Loops and products have
# their own sources.
set(CUBIST_GLUE_OPTIONS $<$<AND:$<CONFIG:Release,RelWithDebInfo>,$<CXX_COMPILER_ID:GNU,Clang,AppleClang>>:-O1>)

# cubist_compiled_source(<variable> <name> MACRO <macro> BACKEND <backend> [LAUNCH] KINDS <kind>... [OF <scheme>...])
function(cubist_compiled_source variable name)
  cmake_parse_arguments(PARSE_ARGV 2 arg "LAUNCH" "MACRO;BACKEND" "KINDS;OF")
  set(source "${CUBIST_COMPILED_DIR}/${name}.cpp")
  string(TOLOWER "${arg_BACKEND}" header)
  cubist_instances(instances KINDS ${arg_KINDS} BACKEND ${arg_BACKEND} OF ${arg_OF})
  if(arg_LAUNCH)
    string(PREPEND instances "CUBIST_LAUNCH_INSTANCE_OF_${arg_BACKEND}(template)\n")
  endif()
  file(CONFIGURE OUTPUT "${source}" @ONLY CONTENT
"#include <cubist/backend/@header@.hpp>
#include <cubist/compiled/loops.hpp>
@instances_headers@
namespace cubist::CUBIST_ABI
{
@instances@
}
")
  set_source_files_properties("${source}" PROPERTIES
    COMPILE_DEFINITIONS "CUBIST_COMPILED=${CUBIST_LIBRARY_VERSION};${arg_MACRO}=${CUBIST_LIBRARY_VERSION}")
  set(${variable} "${source}" PARENT_SCOPE)
endfunction()

# cubist_compiled_library(<target> MACRO <macro> BACKENDS <backend>... LINK <target> [SOURCES <source>...])
#
# Adds a library. It has one source for each backend, with what all schemes share, and one for each backend and set of axes.
function(cubist_compiled_library target)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "MACRO;LINK" "BACKENDS;SOURCES")
  set(sources ${arg_SOURCES})
  foreach(backend IN LISTS arg_BACKENDS)
    string(TOLOWER "${backend}" name)
    cubist_compiled_source(source "${name}" MACRO ${arg_MACRO} BACKEND ${backend} LAUNCH KINDS BACKENDS)
    list(APPEND sources "${source}")
    set(meshes ${CUBIST_MESHES})
    set(kinds ${CUBIST_INSTANCE_KINDS})
    list(REMOVE_ITEM kinds BACKENDS)
    if(backend STREQUAL Simulated)
      list(REMOVE_ITEM meshes ${CUBIST_DATA_MESHES})
      list(REMOVE_ITEM kinds TRAINED_MESHES TRAINED_SCHEMES)
    endif()
    foreach(mesh IN LISTS meshes)
      cubist_compiled_source(source "${name}_${mesh}" MACRO ${arg_MACRO} BACKEND ${backend} KINDS ${kinds}
        OF ${CUBIST_SCHEMES_ON_${mesh}})
      set_source_files_properties("${source}" PROPERTIES COMPILE_OPTIONS "${CUBIST_GLUE_OPTIONS}")
      list(APPEND sources "${source}")
    endforeach()
  endforeach()

  string(REGEX REPLACE "^cubist_" "" exported "${target}")
  add_library(${target} ${sources})
  add_library(cubist::${exported} ALIAS ${target})
  set_target_properties(${target} PROPERTIES
    EXPORT_NAME ${exported} POSITION_INDEPENDENT_CODE ON UNITY_BUILD OFF VERSION ${PROJECT_VERSION}
    SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
  # By default g++ begins to collect garbage at 128 MB. If it begins at 1 GB it takes 7 % less time, and a quarter more memory.
  target_compile_options(${target} PRIVATE "$<$<CXX_COMPILER_ID:GNU>:SHELL:--param ggc-min-heapsize=1000000>")
  target_link_libraries(${target} PUBLIC ${arg_LINK})
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

# The functions that are not templates.
file(GLOB_RECURSE bodies RELATIVE "${PROJECT_SOURCE_DIR}/include" CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/include/cubist/*_body.hpp")
list(TRANSFORM bodies REPLACE "(.+)" "#include <\\1>")
list(JOIN bodies "\n" bodies)
set(functions "${CUBIST_COMPILED_DIR}/functions.cpp")
file(CONFIGURE OUTPUT "${functions}" @ONLY CONTENT "@bodies@\n")
set_source_files_properties("${functions}" PROPERTIES COMPILE_DEFINITIONS CUBIST_COMPILED=${CUBIST_LIBRARY_VERSION})

cubist_compiled_library(cubist_compiled MACRO CUBIST_COMPILED BACKENDS Threads Simulated LINK cubist SOURCES ${functions} ${CUBIST_LOOPS_SOURCES})
if(CUBIST_INSTALL)
  install(FILES "${CUBIST_COMPILED_DIR}/include/cubist/core/compiled_schemes.hpp"
    DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/cubist/core" COMPONENT compiled)
endif()
if(TARGET cubist_mpi)
  cubist_compiled_library(cubist_compiled_mpi MACRO CUBIST_COMPILED_MPI BACKENDS Mpi LINK cubist_compiled)
  target_link_libraries(cubist_compiled_mpi PUBLIC cubist_mpi)
endif()
