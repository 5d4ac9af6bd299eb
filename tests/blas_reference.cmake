# Tests that cubist's references to OpenBLAS's functions are weak, and a program's are strong. A linker takes from a static
# library only what strong references ask for, so a program's reference that became weak would be null.
add_library(cubist_blas_reference STATIC blas_reference/blas.cpp)
foreach(program IN ITEMS declared_before declared_after not_declared)
  add_executable(cubist_blas_reference_${program} blas_reference/${program}.cpp)
  target_compile_features(cubist_blas_reference_${program} PRIVATE cxx_std_20)
  target_include_directories(cubist_blas_reference_${program} PRIVATE "${PROJECT_SOURCE_DIR}/include")
  target_link_libraries(cubist_blas_reference_${program} PRIVATE cubist_blas_reference cubist_warnings)
  add_test(NAME "blas reference: ${program}" COMMAND cubist_blas_reference_${program})
  set_tests_properties("blas reference: ${program}" PROPERTIES LABELS threads TIMEOUT 60)
endforeach()
