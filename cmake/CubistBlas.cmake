# Which BLAS xtensor-blas links. Several threads call it at once, so OpenBLAS's serial build is
# refused: its buffers are shared without locks, and under concurrent callers it returns wrong
# results. A BLAS that the user names (BLA_VENDOR, BLAS_LIBRARIES) is taken as it is otherwise;
# left to itself, CMake may pick the slow reference BLAS, so OpenBLAS is asked for first.
if(NOT BLA_VENDOR AND NOT BLAS_LIBRARIES)
  set(BLA_VENDOR OpenBLAS)
  find_package(BLAS QUIET)
  unset(BLA_VENDOR)
endif()
find_package(BLAS REQUIRED)

foreach(library IN LISTS BLAS_LIBRARIES)
  file(REAL_PATH "${library}" resolved)
  if(resolved MATCHES "openblas[^/]*serial")
    message(FATAL_ERROR
      "cubist: BLAS resolves to OpenBLAS's serial build (${resolved}), which returns wrong results "
      "when several threads call it. Install its pthread build (Debian: libopenblas-pthread-dev, and "
      "remove libopenblas-serial-dev), or set BLAS_LIBRARIES to another BLAS.")
  endif()
endforeach()
unset(library)
unset(resolved)
