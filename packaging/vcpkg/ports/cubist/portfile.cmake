# An overlay port: the source is the checkout that it lies in.
get_filename_component(SOURCE_PATH "${CMAKE_CURRENT_LIST_DIR}/../../../.." ABSOLUTE)
set(VCPKG_BUILD_TYPE release) # headers only

vcpkg_check_features(OUT_FEATURE_OPTIONS options FEATURES mpi CUBIST_WITH_MPI)
vcpkg_cmake_configure(
  SOURCE_PATH "${SOURCE_PATH}"
  OPTIONS
    ${options}
    -DCUBIST_WITH_NCCL=OFF
    -DCUBIST_BUILD_TESTS=OFF
    -DCUBIST_BUILD_EXAMPLES=OFF
    -DCUBIST_BUILD_BENCH=OFF
    -DCUBIST_BUILD_TOOLS=OFF
    -DCUBIST_BUILD_GPU=OFF
    -DCUBIST_VERIFY_HEADERS=OFF)
vcpkg_cmake_install()
vcpkg_cmake_config_fixup(CONFIG_PATH share/cmake/cubist)
# The files name libraries, so vcpkg wants them in lib.
file(MAKE_DIRECTORY "${CURRENT_PACKAGES_DIR}/lib")
file(RENAME "${CURRENT_PACKAGES_DIR}/share/pkgconfig" "${CURRENT_PACKAGES_DIR}/lib/pkgconfig")
vcpkg_fixup_pkgconfig()
vcpkg_install_copyright(FILE_LIST "${SOURCE_PATH}/LICENSE")
file(INSTALL "${CMAKE_CURRENT_LIST_DIR}/usage" DESTINATION "${CURRENT_PACKAGES_DIR}/share/${PORT}")
