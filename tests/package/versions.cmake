# Run with -P; see ../package.cmake. Files that CMake does not write, and readers of other tools do, name the same version.
cmake_minimum_required(VERSION 3.24)
include("${CUBIST_SOURCE_DIR}/cmake/CubistVersion.cmake")
foreach(file_and_text IN ITEMS
    "CITATION.cff|\nversion: @\n"
    "CHANGELOG.md|\n## \\[@\\]"
    "README.md|version @\\]\\(docs/badge_version.svg"
    "docs/badge_version.svg|>@<"
    "docs/install.md|GIT_TAG v@\\)"
    "packaging/vcpkg/ports/cubist/vcpkg.json|\"version\": \"@\""
    "packaging/spack/spack_repo/cubist/packages/cubist/package.py|version\\(\"@\", tag=\"v@\"\\)")
  string(REPLACE "|" ";" file_and_text "${file_and_text}")
  list(GET file_and_text 0 file)
  list(GET file_and_text 1 expected)
  string(REPLACE "@" "${CUBIST_VERSION}" expected "${expected}")
  file(READ "${CUBIST_SOURCE_DIR}/${file}" text)
  if(NOT text MATCHES "${expected}")
    message(SEND_ERROR "${file} does not name cubist ${CUBIST_VERSION}")
  endif()
endforeach()
