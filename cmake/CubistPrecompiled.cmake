# Precompiles headers once for all targets that use them. This is for clang++ only: g++ wants the same definitions in all targets.
#
# Every target would still generate code for what the headers define and instantiate. With CODE this is done once, too, in an
# object that the targets link. The object is optimized even if the targets are not: this takes a minute, and halves the time
# that the tests of networks run. The object calls functions that some programs lack, such as Catch2's, but lld drops unused
# functions before it looks for what they call.

include(CubistInstances)

# Instances that several programs with networks share.
cubist_instances(backend KINDS BACKENDS BACKEND Threads)
cubist_instances(summa2d KINDS MESHES MESH_SCALARS SCHEMES BACKEND Threads OF Summa2D)
cubist_instances(summa25d KINDS MESHES MESH_SCALARS SCHEMES BACKEND Threads OF Summa25D)
set(CUBIST_NETWORK_INSTANCES "${PROJECT_BINARY_DIR}/precompiled_instances.hpp")
file(CONFIGURE OUTPUT "${CUBIST_NETWORK_INSTANCES}" @ONLY CONTENT
"#pragma once
namespace cubist::CUBIST_ABI
{
CUBIST_LAUNCH_INSTANCE_OF_Threads(template)
@backend@
@summa2d@
@summa25d@
}
")

# cubist_precompile(<precompiled> [CODE] [NETWORKS] HEADERS <header>... LINK <target>...): precompiles headers. With NETWORKS it
# adds what programs with networks have in common, and these link the optimized loops over elements (CubistLoops.cmake).
function(cubist_precompile precompiled)
  cmake_parse_arguments(PARSE_ARGV 1 arg "CODE;NETWORKS" "" "HEADERS;LINK")
  if(CMAKE_CXX_COMPILER_ID STREQUAL Clang)
    file(CONFIGURE OUTPUT "${CMAKE_CURRENT_BINARY_DIR}/precompiled.cpp" CONTENT "")
    add_library(${precompiled} OBJECT "${CMAKE_CURRENT_BINARY_DIR}/precompiled.cpp")
    target_link_libraries(${precompiled} PRIVATE ${arg_LINK})
    target_precompile_headers(${precompiled} PRIVATE "${PROJECT_SOURCE_DIR}/cmake/precompiled.hpp" ${arg_HEADERS})
    if(arg_NETWORKS)
      target_precompile_headers(${precompiled} PRIVATE "${PROJECT_SOURCE_DIR}/cmake/precompiled_networks.hpp"
        "${CUBIST_NETWORK_INSTANCES}")
      cubist_use_loops(${precompiled})
      set_property(TARGET ${precompiled} PROPERTY CUBIST_NETWORKS ON)
    endif()
    target_compile_options(${precompiled} PRIVATE "SHELL:-Xclang -fno-pch-timestamp") # for ccache
    if(arg_CODE AND CUBIST_LLD AND CMAKE_GENERATOR STREQUAL Ninja)
      target_compile_options(${precompiled} PRIVATE -fpch-codegen)
      string(TOUPPER "${CMAKE_BUILD_TYPE}" type)
      string(REPLACE "-O0" "-O1" options "${CMAKE_CXX_FLAGS} ${CMAKE_CXX_FLAGS_${type}}")
      separate_arguments(options UNIX_COMMAND "${options}")
      set(header "${CMAKE_CURRENT_BINARY_DIR}/CMakeFiles/${precompiled}.dir/cmake_pch.hxx.pch")
      set(object "${CMAKE_CURRENT_BINARY_DIR}/${precompiled}.o")
      add_custom_command(OUTPUT "${object}" DEPENDS "${header}" VERBATIM
        COMMAND ${CMAKE_CXX_COMPILER} ${options} -ffunction-sections -fdata-sections -c "${header}" -o "${object}")
      add_custom_target(${precompiled}_object DEPENDS "${object}")
      set_property(TARGET ${precompiled} PROPERTY CUBIST_OBJECT "${object}")
    endif()
  endif()
endfunction()

# cubist_use_precompiled(<target> <precompiled>): lets a target use the precompiled headers.
function(cubist_use_precompiled target precompiled)
  if(TARGET ${precompiled})
    target_precompile_headers(${target} REUSE_FROM ${precompiled})
    get_target_property(networks ${precompiled} CUBIST_NETWORKS)
    if(networks)
      cubist_use_loops(${target})
    endif()
    get_target_property(object ${precompiled} CUBIST_OBJECT)
    if(object)
      add_dependencies(${target} ${precompiled}_object)
      target_link_libraries(${target} PRIVATE "${object}")
      target_link_options(${target} PRIVATE LINKER:--gc-sections)
    endif()
  endif()
endfunction()
