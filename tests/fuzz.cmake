# tests/fuzz/<reader>_fuzz.cpp gives arbitrary bytes to a reader of files. Where clang builds with -fsanitize=address, libFuzzer
# makes the bytes from tests/fuzz/corpus/<reader>; elsewhere only that corpus is read. To search longer, and for more:
#   build/asan/tests/cubist_npy_fuzz -max_total_time=600 findings tests/fuzz/corpus/npy
set(fuzzer FALSE)
if(CMAKE_CXX_COMPILER_ID MATCHES Clang AND CMAKE_CXX_FLAGS MATCHES "-fsanitize=address")
  set(fuzzer TRUE)
endif()

set(readers safetensors npy csv config index machine token)
if(CMAKE_CXX_FLAGS MATCHES "-fsanitize=thread")
  set(readers) # readers have no threads
endif()
list(TRANSFORM readers REPLACE "(.+)" "fuzz/\\1_fuzz.cpp" OUTPUT_VARIABLE sources)
if(readers AND NOT fuzzer)
  add_executable(cubist_fuzz_replay ${sources} fuzz/replay.cpp) # one program for all readers, which compiles in a fifth of the time
  target_link_libraries(cubist_fuzz_replay PRIVATE cubist::cubist cubist_warnings)
  cubist_use_precompiled(cubist_fuzz_replay cubist_test_precompiled)
endif()
foreach(reader IN LISTS readers)
  set(corpus "${CMAKE_CURRENT_SOURCE_DIR}/fuzz/corpus/${reader}")
  if(fuzzer)
    set(target cubist_${reader}_fuzz)
    add_executable(${target} fuzz/${reader}_fuzz.cpp)
    target_link_libraries(${target} PRIVATE cubist::cubist cubist_warnings)
    target_compile_definitions(${target} PRIVATE CUBIST_FUZZER)
    target_compile_options(${target} PRIVATE -fsanitize=fuzzer -O1)
    target_link_options(${target} PRIVATE -fsanitize=fuzzer)
    add_test(NAME "fuzz: ${reader}"
      COMMAND "${CMAKE_COMMAND}" "-DFUZZER=$<TARGET_FILE:${target}>" "-DCORPUS=${corpus}"
        "-DWORK_DIR=${CMAKE_CURRENT_BINARY_DIR}/fuzz/${reader}" -P "${CMAKE_CURRENT_SOURCE_DIR}/fuzz/run.cmake")
  else()
    add_test(NAME "fuzz: ${reader}" COMMAND cubist_fuzz_replay ${reader} "${corpus}")
  endif()
  set_tests_properties("fuzz: ${reader}" PROPERTIES LABELS fuzz TIMEOUT 120)
endforeach()
