# Tests for other processors than this one: one with AVX2 but without AVX-512, and one with neither. The environment keeps the
# library's loops, OpenBLAS and the C library from newer instructions; the names are glibc's.
set(no_avx512 -AVX512F,-AVX512VL,-AVX512BW,-AVX512DQ,-AVX512CD)
set(environment_avx2 CUBIST_INSTRUCTIONS=avx2 OPENBLAS_CORETYPE=Haswell GLIBC_TUNABLES=glibc.cpu.hwcaps=${no_avx512})
set(environment_x86-64
  CUBIST_INSTRUCTIONS=compiled OPENBLAS_CORETYPE=Prescott GLIBC_TUNABLES=glibc.cpu.hwcaps=${no_avx512},-AVX2,-AVX,-FMA,-FMA4)

set(other_processors)
if(CMAKE_SYSTEM_PROCESSOR STREQUAL x86_64)
  list(APPEND other_processors x86-64)
  set(flags)
  if(EXISTS /proc/cpuinfo)
    file(STRINGS /proc/cpuinfo flags REGEX "^flags.* avx2( |$)" LIMIT_COUNT 1)
  endif()
  if(flags)
    list(PREPEND other_processors avx2)
  endif()
endif()

# What depends on the processor are the loops, which the tests of core and engine optimize, and functions of BLAS and libm. Other
# tests have the same results on all processors, or compare within bounds.
foreach(processor IN LISTS other_processors)
  foreach(layer IN ITEMS core engine nn)
    set(cases)
    if(layer STREQUAL nn)
      set(cases --filenames-as-tags "[#activation_test],[#attention_test],[#local_attention_test],[#softmax_test],[#loss_test],[#optimizer_test]")
    endif()
    add_test(NAME "processor: ${layer} on ${processor}" COMMAND cubist_${layer}_tests ${cases})
    set_tests_properties("processor: ${layer} on ${processor}" PROPERTIES
      LABELS threads TIMEOUT 120 ENVIRONMENT "${environment_${processor}}")
  endforeach()
endforeach()
