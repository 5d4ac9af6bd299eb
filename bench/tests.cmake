# That every benchmark runs, on threads and under mpiexec, that its products are right, its results
# complete and plotted, and the job scripts well-formed. Never how fast anything is.

set(row_fields backend ranks nodes overlap scalar repeats warm_up seconds min_seconds
  most_words_per_rank messages_per_rank)
set(product_fields ${row_fields} scheme mesh algorithm words_per_rank formula_words_per_rank compute_seconds
  communication_seconds gflops blas_seconds blas_gflops ratio scalapack_seconds scalapack_gflops
  scalapack_block)
set(matmul_fields ${product_fields} communication_share m n k)
set(ceiling_fields ${matmul_fields} local_seconds local_ratio paged_seconds paged_ratio)
set(mlp_fields ${product_fields} tokens layers activation optimizer
  gemm_share elementwise_share communication_share waiting_share
  torch_seconds torch_min_seconds torch_gflops torch_threads torch_version)
set(scaling_fields ${matmul_fields} mode grows threads_per_rank speed_up efficiency)
set(planner_fields backend ranks nodes overlap scalar training all_ranks repeats m n k choice fastest ratio all)
set(collectives_fields ${row_fields} collective words bytes_per_word gigabytes_per_second
  gemm_gflops_per_rank)
set(elementwise_fields function pass scalar rows cols bytes repeats warm_up seconds min_seconds plain_seconds
  plain_min_seconds gigabytes_per_second plain_gigabytes_per_second ratio)

# Debian's matplotlib belongs to Debian's Python, which need not be the first one in the path.
find_program(CUBIST_PLOT_PYTHON NAMES python3 PATHS /usr/bin NO_DEFAULT_PATH DOC "A Python with matplotlib, for bench/plot")
find_program(CUBIST_PLOT_PYTHON NAMES python3)
if(CUBIST_PLOT_PYTHON)
  execute_process(COMMAND "${CUBIST_PLOT_PYTHON}" -c "import matplotlib" RESULT_VARIABLE no_matplotlib ERROR_QUIET)
endif()

set(in_mpi OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
  OMPI_MCA_rmaps_base_oversubscribe=1 PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe)

# bench_test(threads|mpi|fake name benchmark arguments...)
function(bench_test backend name benchmark)
  set(json "${CMAKE_CURRENT_BINARY_DIR}/${name}-${backend}.json")
  set(program cubist_bench)
  if(backend STREQUAL fake)
    set(program cubist_bench_stand_in)
  endif()
  set(command $<TARGET_FILE:${program}> ${benchmark} ${ARGN} --repeats 1 --json "${json}")
  if(backend STREQUAL mpi)
    set(command ${MPIEXEC_EXECUTABLE} ${MPIEXEC_NUMPROC_FLAG} 4 ${command})
  endif()
  set(label "bench: ${name}, ${backend}")
  add_test(NAME "${label}" COMMAND ${command})
  set_tests_properties("${label}" PROPERTIES
    LABELS bench TIMEOUT 300 FIXTURES_SETUP "${name}-${backend}")
  if(backend STREQUAL mpi)
    set_tests_properties("${label}" PROPERTIES ENVIRONMENT "${in_mpi}" PROCESSORS 4)
  endif()

  set(fields ${${benchmark}_fields})
  if("--bandwidth" IN_LIST ARGN)
    list(APPEND fields bandwidth_gbit_per_second wire_seconds bound_seconds apart_seconds)
  endif()
  add_test(NAME "${label}: its JSON"
    COMMAND "${CMAKE_COMMAND}" "-DFILE=${json}" -DBENCHMARK=${benchmark}
      "-DFIELDS=${fields}" -P "${CMAKE_CURRENT_SOURCE_DIR}/check_json.cmake")
  set_tests_properties("${label}: its JSON" PROPERTIES
    LABELS bench FIXTURES_REQUIRED "${name}-${backend}")
  if(CUBIST_PLOT_PYTHON AND NOT no_matplotlib AND NOT benchmark STREQUAL planner) # whose table is its chart
    foreach(format svg png)
      add_test(NAME "${label}: its ${format}"
        COMMAND "${CUBIST_PLOT_PYTHON}" "${CMAKE_CURRENT_SOURCE_DIR}/plot" "${json}" -o "${json}.${format}")
      set_tests_properties("${label}: its ${format}" PROPERTIES
        LABELS bench FIXTURES_REQUIRED "${name}-${backend}" TIMEOUT 60)
    endforeach()
  endif()
endfunction()

set(backends threads)
if(TARGET cubist_mpi)
  list(APPEND backends mpi)
endif()
foreach(backend IN LISTS backends)
  bench_test(${backend} matmul matmul --sizes 65 --shapes 33x130x7 --bandwidth 1)
  bench_test(${backend} ceiling ceiling --shapes 40x30x20,64x4x4 --rank-counts 4 --scalars double)
  bench_test(${backend} planned-ceiling ceiling --shapes 40x30x20,64x4x4 --rank-counts 4 --scalars double --planned)
  bench_test(${backend} grid3d matmul --schemes grid3d --mesh 2,1,2 --sizes 33 --scalars float)
  bench_test(${backend} collective-matmul matmul --sizes 65 --schemes summa2d --method collectives)
  bench_test(${backend} mlp mlp --tokens 24 --layers 16,33,8 --optimizer adam --torch off)
  bench_test(${backend} mlp-beside-torch mlp --tokens 24 --layers 16,33,8 --schemes summa2d --scalars float)
  bench_test(${backend} planner planner --ranks 4 --shapes 24x16x20 --final-repeats 1)
  bench_test(${backend} collectives collectives --words 1,1000)
  bench_test(${backend} strong scaling --mode strong --shape 70x40x30)
  bench_test(${backend} weak scaling --mode weak --grow all --shape 30x40x50 --scalars float)
endforeach()
bench_test(threads elementwise elementwise --rows 7 --cols 75)
if(TARGET cubist_mpi)
  bench_test(mpi overlap matmul --sizes 40 --overlap both --schemes summa2d --mesh 4,1)
endif()

# What a user gets wrong is said before anything runs.
add_test(NAME "bench: a mesh that does not fit" COMMAND cubist_bench matmul --schemes cube3d --ranks 4)
set_tests_properties("bench: a mesh that does not fit" PROPERTIES
  LABELS bench PASS_REGULAR_EXPRESSION "Cube3D got 4 ranks, which are no cube.*use 1 or 8 ranks")

# On GPUs, as far as that goes without one: the errors, and the measurements on the fake.
if(TARGET cubist_bench_gpu)
  add_test(NAME "bench: without a GPU" COMMAND cubist_bench_gpu matmul --sizes 64)
  set_tests_properties("bench: without a GPU" PROPERTIES LABELS "bench;nccl" TIMEOUT 60
    ENVIRONMENT "CUDA_VISIBLE_DEVICES=-1"
    PASS_REGULAR_EXPRESSION "found no GPU .*, but each rank needs one; look at nvidia-smi")
endif()
if(TARGET cubist_nccl)
  set(tests "${PROJECT_SOURCE_DIR}/tests")
  add_executable(cubist_bench_stand_in
    gpu/cubist_bench_gpu.cpp gpu/find_gpus.cpp gpu/fake.cpp
    ${tests}/nccl/fake_cuda.cpp ${tests}/nccl/fake_nccl.cpp)
  target_include_directories(cubist_bench_stand_in SYSTEM PRIVATE ${NCCL_INCLUDE_DIR} ${CUDAToolkit_INCLUDE_DIRS})
  target_include_directories(cubist_bench_stand_in PRIVATE ${tests}/nccl ${PROJECT_SOURCE_DIR}/examples)
  target_compile_options(cubist_bench_stand_in PRIVATE -O1)
  target_link_libraries(cubist_bench_stand_in PRIVATE cubist_bench_common cubist_warnings)
  bench_test(fake matmul-gpu matmul --sizes 65 --shapes 33x130x7 --schemes summa25d --scalars float --ranks 8)
  bench_test(fake mlp-gpu mlp --tokens 24 --widths 16,33,8 --schemes summa25d --scalars float --ranks 8 --optimizer adam --torch off)
endif()

# PyTorch is measured where it is installed, and missed where it is not.
add_test(NAME "bench: mlp without PyTorch"
  COMMAND cubist_bench mlp --tokens 24 --layers 16,8 --schemes summa2d --scalars float --repeats 1)
set_tests_properties("bench: mlp without PyTorch" PROPERTIES
  LABELS bench TIMEOUT 60 ENVIRONMENT "PYTHONPATH=${CMAKE_CURRENT_SOURCE_DIR}/peers/no_torch"
  PASS_REGULAR_EXPRESSION " -\nPyTorch is not installed")

# The library that cubist is linked with, compared with itself.
list(GET BLAS_LIBRARIES 0 blas)
if(blas MATCHES "\\.so")
  add_test(NAME "bench: blas speeds" COMMAND cubist_blas_speeds "${blas}" "${blas}" --shapes 40x30x20 --repeats 1)
  set_tests_properties("bench: blas speeds" PROPERTIES LABELS bench TIMEOUT 60
    PASS_REGULAR_EXPRESSION "double . 40x30x20" FAIL_REGULAR_EXPRESSION "wrong result")
endif()

find_program(CUBIST_BASH bash)
foreach(job strong weak)
  if(CUBIST_BASH)
    add_test(NAME "bench: ${job}.sbatch"
      COMMAND "${CUBIST_BASH}" -n "${CMAKE_CURRENT_SOURCE_DIR}/slurm/${job}.sbatch")
    set_tests_properties("bench: ${job}.sbatch" PROPERTIES LABELS bench)
  endif()
endforeach()
