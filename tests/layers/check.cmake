# Run with -P and ROOT=<.../cubist>.
cmake_minimum_required(VERSION 3.24)

# Which layers a layer may include:
set(core core)
set(comm core comm)
set(engine core engine)
set(backend core comm engine backend)
set(mesh core comm mesh)
set(dist core comm engine mesh dist)
set(scheme ${dist} scheme)
set(matmul ${scheme} matmul)
set(nn ${matmul} nn)
set(plan ${scheme} plan)
set(io ${dist} io)

# Above backend/ a program knows concepts, never who carries the data or computes.
set(concrete "^(backend/|comm/(thread|mpi|nccl|cuda)|engine/(host|cuda))")
set(may_be_concrete comm engine backend)

# The engine on the host, and the way of global matrices in and out.
set(may_know_xtensor "^(engine/host_engine|dist/)")

set(faults)
file(GLOB_RECURSE headers RELATIVE "${ROOT}" "${ROOT}/*.hpp")
if(NOT headers)
  message(FATAL_ERROR "no headers in ${ROOT}")
endif()

foreach(header IN LISTS headers)
  if(header STREQUAL "cubist.hpp")
    continue() # the umbrella: it includes everything
  endif()
  string(REGEX MATCH "^[^/]+" layer "${header}")
  if(NOT DEFINED ${layer} OR NOT header MATCHES "/")
    list(APPEND faults "${header}: ${layer}/ is no layer; its rule belongs in tests/layers/check.cmake")
    continue()
  endif()

  file(STRINGS "${ROOT}/${header}" lines REGEX "^[ \t]*#[ \t]*include")
  foreach(line IN LISTS lines)
    string(REGEX MATCH "[<\"][^>\"]+[>\"]" spelled "${line}")
    string(REGEX REPLACE "[<>\"]" "" included "${spelled}")

    if(included MATCHES "^(xtensor|xtensor-blas|xtl|xflens)/")
      if(NOT header MATCHES "${may_know_xtensor}")
        list(APPEND faults "${header}: ${layer}/ may not know xtensor (${included})")
      endif()
    elseif(included MATCHES "^cubist/(([^/]+)/.+)$")
      set(path "${CMAKE_MATCH_1}")
      set(other "${CMAKE_MATCH_2}")
      if(path MATCHES "${concrete}" AND NOT layer IN_LIST may_be_concrete)
        list(APPEND faults "${header}: only backend/ may know the concrete ${included}")
      elseif(NOT other IN_LIST ${layer})
        list(APPEND faults "${header}: ${layer}/ may not include ${included}")
      endif()
    elseif(included STREQUAL "cubist/cubist.hpp")
      list(APPEND faults "${header}: ${layer}/ may not include ${included}")
    elseif(spelled MATCHES "^\"")
      list(APPEND faults "${header}: write ${spelled} as \"cubist/<layer>/<header>\"")
    endif()
  endforeach()
endforeach()

if(faults)
  list(JOIN faults "\n  " faults)
  message(FATAL_ERROR "includes that do not point down:\n  ${faults}")
endif()
