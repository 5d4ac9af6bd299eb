# cubist_pkgconfig(<component> [EXCLUDE_FROM_ALL] NAME <name> DESCRIPTION <text> [REQUIRES <name>...] [DEFINITIONS <macro>...]
#   INCLUDES <folder>... LIBRARIES <library>...)
#
# Writes <name>.pc for a component, for builds without CMake. It leaves out folders that compilers search anyway. The prefix
# follows from the file's place, so an installation may be moved, except for folders that were configured with absolute paths.
function(cubist_pkgconfig component)
  cmake_parse_arguments(PARSE_ARGV 1 arg "EXCLUDE_FROM_ALL" "NAME;DESCRIPTION" "REQUIRES;DEFINITIONS;INCLUDES;LIBRARIES")

  set(cflags "-I\${includedir}")
  foreach(folder IN LISTS arg_INCLUDES)
    if(IS_DIRECTORY "${folder}" AND NOT folder IN_LIST CMAKE_CXX_IMPLICIT_INCLUDE_DIRECTORIES)
      list(APPEND cflags "-I${folder}")
    endif()
  endforeach()
  list(REMOVE_DUPLICATES cflags)
  list(TRANSFORM arg_DEFINITIONS PREPEND "-D")
  list(APPEND cflags ${arg_DEFINITIONS})

  set(libs)
  set(folders)
  foreach(library IN LISTS arg_LIBRARIES)
    cmake_path(GET library PARENT_PATH folder)
    if(folder AND NOT folder IN_LIST CMAKE_CXX_IMPLICIT_LINK_DIRECTORIES)
      list(APPEND folders "-L${folder}")
    endif()
    if(folder)
      cmake_path(GET library FILENAME file)
      string(REGEX REPLACE "^lib([^.]+(\\.[^.0-9][^.]*)*)\\.(so|a|dylib).*$" "-l\\1" library "${file}")
    endif()
    list(APPEND libs "${library}")
  endforeach()
  list(PREPEND libs ${folders})
  list(REMOVE_DUPLICATES libs)

  set(requires)
  if(arg_REQUIRES)
    list(TRANSFORM arg_REQUIRES APPEND " = ${PROJECT_VERSION}")
    list(JOIN arg_REQUIRES ", " requires)
    set(requires "Requires: ${requires}\n")
  endif()
  set(prefix "${CMAKE_INSTALL_PREFIX}")
  if(NOT IS_ABSOLUTE "${CMAKE_INSTALL_DATADIR}")
    cmake_path(RELATIVE_PATH prefix BASE_DIRECTORY "${CMAKE_INSTALL_FULL_DATADIR}/pkgconfig")
    cmake_path(SET prefix "\${pcfiledir}/${prefix}")
  endif()
  cmake_path(ABSOLUTE_PATH CMAKE_INSTALL_INCLUDEDIR BASE_DIRECTORY "\${prefix}" OUTPUT_VARIABLE includedir)
  cmake_path(ABSOLUTE_PATH CMAKE_INSTALL_LIBDIR BASE_DIRECTORY "\${prefix}" OUTPUT_VARIABLE libdir)
  list(JOIN cflags " " cflags)
  list(JOIN libs " " libs)
  file(CONFIGURE OUTPUT "${PROJECT_BINARY_DIR}/${arg_NAME}.pc" @ONLY CONTENT
"prefix=@prefix@
includedir=@includedir@
libdir=@libdir@

Name: @arg_NAME@
Description: @arg_DESCRIPTION@
Version: @PROJECT_VERSION@
@requires@Cflags: @cflags@
Libs: @libs@
")
  set(exclude)
  if(arg_EXCLUDE_FROM_ALL)
    set(exclude EXCLUDE_FROM_ALL)
  endif()
  install(FILES "${PROJECT_BINARY_DIR}/${arg_NAME}.pc" DESTINATION "${CMAKE_INSTALL_DATADIR}/pkgconfig" COMPONENT ${component} ${exclude})
endfunction()

# cubist_target_includes(<variable> <target>...): lists the include directories of those targets that exist.
function(cubist_target_includes variable)
  set(all)
  foreach(target IN LISTS ARGN)
    if(TARGET ${target})
      get_target_property(folders ${target} INTERFACE_INCLUDE_DIRECTORIES)
      list(APPEND all ${folders})
    endif()
  endforeach()
  set(${variable} ${all} PARENT_SCOPE)
endfunction()

cubist_target_includes(includes xtensor xtl xtensor-blas nlohmann_json::nlohmann_json Random123::Random123)
cubist_pkgconfig(core NAME cubist
  DESCRIPTION "${PROJECT_DESCRIPTION}"
  INCLUDES ${includes}
  LIBRARIES ${BLAS_LIBRARIES} -pthread)

if(TARGET cubist_mpi)
  cubist_target_includes(includes MPI::MPI_CXX Boost::headers)
  get_target_property(boost_mpi Boost::mpi LOCATION)
  get_target_property(boost_serialization Boost::serialization LOCATION)
  cubist_pkgconfig(mpi NAME cubist-mpi
    DESCRIPTION "cubist with ranks as MPI processes"
    REQUIRES cubist
    INCLUDES ${includes}
    LIBRARIES ${boost_mpi} ${boost_serialization} ${MPI_CXX_LIBRARIES})
endif()

if(TARGET cubist_pblas)
  list(REMOVE_ITEM CUBIST_PBLAS_INSTALL COMPONENT pblas)
  cubist_pkgconfig(pblas ${CUBIST_PBLAS_INSTALL} NAME cubist-pblas
    DESCRIPTION "cubist's products and sums of ScaLAPACK's matrices"
    REQUIRES cubist-mpi
    INCLUDES ""
    LIBRARIES "-L\${libdir}" -lcubist_pblas)
endif()

if(TARGET cubist_nccl)
  set(libraries ${NCCL_LIBRARY})
  foreach(target IN ITEMS cudart cublas cublasLt)
    get_target_property(library CUDA::${target} LOCATION)
    list(APPEND libraries "${library}")
  endforeach()
  cubist_pkgconfig(nccl NAME cubist-nccl
    DESCRIPTION "cubist with a GPU for each rank"
    REQUIRES cubist
    INCLUDES ${NCCL_INCLUDE_DIR} ${CUDAToolkit_INCLUDE_DIRS}
    LIBRARIES ${libraries})
endif()

if(TARGET cubist_compiled)
  cubist_pkgconfig(compiled NAME cubist-compiled
    DESCRIPTION "cubist's compiled library"
    REQUIRES cubist
    DEFINITIONS CUBIST_COMPILED=${CUBIST_LIBRARY_VERSION}
    INCLUDES ""
    LIBRARIES "-L\${libdir}" -lcubist_compiled ${BLAS_LIBRARIES})
endif()
if(TARGET cubist_compiled_mpi)
  cubist_pkgconfig(compiled_mpi NAME cubist-compiled-mpi
    DESCRIPTION "cubist's compiled library for ranks as MPI processes"
    REQUIRES cubist-compiled cubist-mpi
    DEFINITIONS CUBIST_COMPILED_MPI=${CUBIST_LIBRARY_VERSION}
    INCLUDES ""
    LIBRARIES "-L\${libdir}" -lcubist_compiled_mpi)
endif()
