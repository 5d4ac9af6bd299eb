# That NumPy reads .npy files as cubist writes them, and the other way round. Debian's NumPy belongs to Debian's
# Python, which need not be the first one in the path.
find_program(CUBIST_NUMPY_PYTHON NAMES python3 PATHS /usr/bin NO_DEFAULT_PATH DOC "A Python with NumPy, for tests of .npy files")
find_program(CUBIST_NUMPY_PYTHON NAMES python3)

add_executable(cubist_npy numpy/npy.cpp)
target_link_libraries(cubist_npy PRIVATE cubist::cubist cubist_warnings)
if(CUBIST_NUMPY_PYTHON)
  add_test(NAME "numpy: headers of .npy files" COMMAND
    "${CUBIST_NUMPY_PYTHON}" "${CMAKE_CURRENT_SOURCE_DIR}/numpy/check.py" $<TARGET_FILE:cubist_npy>)
else()
  add_test(NAME "numpy: headers of .npy files" COMMAND "${CMAKE_COMMAND}" -E echo "skipped: there is no python3")
endif()
set_tests_properties("numpy: headers of .npy files" PROPERTIES
  LABELS numpy TIMEOUT 60 SKIP_REGULAR_EXPRESSION "skipped: ")
