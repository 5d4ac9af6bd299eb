# Tests that NumPy reads files as cubist writes them, and the other way round. Debian's NumPy belongs to Debian's Python, which
# need not be the first in the path.
find_program(CUBIST_NUMPY_PYTHON NAMES python3 PATHS /usr/bin NO_DEFAULT_PATH DOC "A Python with NumPy, for tests of files")
find_program(CUBIST_NUMPY_PYTHON NAMES python3)

# cubist_numpy_test(<what is tested> <script> <target> [<argument>...])
function(cubist_numpy_test test script target)
  if(CUBIST_NUMPY_PYTHON)
    add_test(NAME "numpy: ${test}" COMMAND
      "${CUBIST_NUMPY_PYTHON}" "${CMAKE_CURRENT_SOURCE_DIR}/numpy/${script}" $<TARGET_FILE:${target}> ${ARGN})
  else()
    add_test(NAME "numpy: ${test}" COMMAND "${CMAKE_COMMAND}" -E echo "skipped: there is no python3")
  endif()
  set_tests_properties("numpy: ${test}" PROPERTIES LABELS numpy TIMEOUT 60 SKIP_REGULAR_EXPRESSION "skipped: ")
endfunction()

if(NOT CMAKE_CXX_FLAGS MATCHES "-fsanitize")
  foreach(program IN ITEMS npy files)
    add_executable(cubist_${program} numpy/${program}.cpp)
    target_link_libraries(cubist_${program} PRIVATE cubist::cubist cubist_warnings)
    cubist_use_precompiled(cubist_${program} cubist_test_precompiled)
  endforeach()
  cubist_numpy_test("headers of .npy files" npy.py cubist_npy)
  cubist_numpy_test("distributed matrices" files.py cubist_files)
endif()
