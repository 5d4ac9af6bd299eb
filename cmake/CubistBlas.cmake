# Chooses the BLAS that xtensor-blas links. Several threads call it at once, so OpenBLAS's serial
# build is refused: it shares its buffers without locks, and returns wrong results to concurrent
# callers. Any other BLAS that the user names (BLA_VENDOR, BLAS_LIBRARIES) is taken as it is. If the
# user names none, CMake looks for OpenBLAS first: it might otherwise pick the slow reference BLAS.
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
