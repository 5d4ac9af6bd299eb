# tests/fuzz/<reader>_fuzz.cpp gives a reader of files any bytes. Where clang builds with -fsanitize=address, libFuzzer
# makes them from tests/fuzz/corpus/<reader>; elsewhere that corpus alone is read. To search longer, and for more:
#   build/asan/tests/cubist_npy_fuzz -max_total_time=600 findings tests/fuzz/corpus/npy
set(fuzzer FALSE)
if(CMAKE_CXX_COMPILER_ID MATCHES Clang AND CMAKE_CXX_FLAGS MATCHES "-fsanitize=address")
  set(fuzzer TRUE)
endif()

set(readers safetensors npy csv config index machine token)
if(CMAKE_CXX_FLAGS MATCHES "-fsanitize=thread")
  set(readers) # they have no threads
endif()
foreach(reader IN LISTS readers)
  set(target cubist_${reader}_fuzz)
  set(corpus "${CMAKE_CURRENT_SOURCE_DIR}/fuzz/corpus/${reader}")
  add_executable(${target} fuzz/${reader}_fuzz.cpp)
  target_link_libraries(${target} PRIVATE cubist::cubist cubist_warnings)
  if(fuzzer)
    target_compile_options(${target} PRIVATE -fsanitize=fuzzer -O1)
    target_link_options(${target} PRIVATE -fsanitize=fuzzer)
    add_test(NAME "fuzz: ${reader}"
      COMMAND "${CMAKE_COMMAND}" "-DFUZZER=$<TARGET_FILE:${target}>" "-DCORPUS=${corpus}"
        "-DWORK_DIR=${CMAKE_CURRENT_BINARY_DIR}/fuzz/${reader}" -P "${CMAKE_CURRENT_SOURCE_DIR}/fuzz/run.cmake")
  else()
    target_sources(${target} PRIVATE fuzz/replay.cpp)
    add_test(NAME "fuzz: ${reader}" COMMAND ${target} "${corpus}")
  endif()
  set_tests_properties("fuzz: ${reader}" PROPERTIES LABELS fuzz TIMEOUT 120)
endforeach()
