# Run with -P; see ../package.cmake. Checks that files which CMake does not write, but which other tools read, name the same
# version: the last release.
cmake_minimum_required(VERSION 3.24)
include("${CUBIST_SOURCE_DIR}/cmake/CubistVersion.cmake")
set(release ${CUBIST_VERSION})
if(CUBIST_VERSION_SUFFIX)
  file(READ "${CUBIST_SOURCE_DIR}/CHANGELOG.md" changes)
  if(NOT changes MATCHES "\n## \\[Unreleased\\]")
    message(SEND_ERROR "CHANGELOG.md has no [Unreleased] for cubist ${CUBIST_VERSION}${CUBIST_VERSION_SUFFIX}")
  endif()
  if(NOT changes MATCHES "\n## \\[([0-9.]+)\\]")
    message(FATAL_ERROR "CHANGELOG.md has no release")
  endif()
  set(release ${CMAKE_MATCH_1})
  if(NOT release VERSION_LESS CUBIST_VERSION)
    message(SEND_ERROR "cubist ${CUBIST_VERSION}${CUBIST_VERSION_SUFFIX} is not after its last release, ${release}")
  endif()
endif()
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
  string(REPLACE "@" "${release}" expected "${expected}")
  file(READ "${CUBIST_SOURCE_DIR}/${file}" text)
  if(NOT text MATCHES "${expected}")
    message(SEND_ERROR "${file} does not name cubist ${release}")
  endif()
endforeach()
