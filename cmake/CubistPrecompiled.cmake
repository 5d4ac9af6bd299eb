# Headers of other libraries, compiled once for all targets that use them. Not with g++, which wants the same definitions
# in all of these.

# cubist_precompile(<precompiled> HEADERS <header>... LINK <target>...)
function(cubist_precompile precompiled)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "HEADERS;LINK")
  if(CMAKE_CXX_COMPILER_ID STREQUAL Clang)
    file(CONFIGURE OUTPUT "${CMAKE_CURRENT_BINARY_DIR}/precompiled.cpp" CONTENT "")
    add_library(${precompiled} OBJECT "${CMAKE_CURRENT_BINARY_DIR}/precompiled.cpp")
    target_link_libraries(${precompiled} PRIVATE ${arg_LINK})
    target_precompile_headers(${precompiled} PRIVATE "${PROJECT_SOURCE_DIR}/cmake/precompiled.hpp" ${arg_HEADERS})
    target_compile_options(${precompiled} PRIVATE "SHELL:-Xclang -fno-pch-timestamp") # for ccache
  endif()
endfunction()

# cubist_use_precompiled(<target> <precompiled>)
function(cubist_use_precompiled target precompiled)
  if(TARGET ${precompiled})
    target_precompile_headers(${target} REUSE_FROM ${precompiled})
  endif()
endfunction()
