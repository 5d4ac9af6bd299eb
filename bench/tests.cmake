# Tests that every benchmark runs on threads and under mpiexec, that its products are right, that its results are complete and
# can be plotted, and that the job scripts are valid. No test asks how fast anything is.

# Debian's matplotlib belongs to Debian's Python, which need not come first in the path.
find_program(CUBIST_PLOT_PYTHON NAMES python3 PATHS /usr/bin NO_DEFAULT_PATH DOC "A Python with matplotlib, for bench/scripts/plot")
find_program(CUBIST_PLOT_PYTHON NAMES python3)
if(CUBIST_PLOT_PYTHON)
  execute_process(COMMAND "${CUBIST_PLOT_PYTHON}" -c "import matplotlib" RESULT_VARIABLE no_matplotlib ERROR_QUIET)
endif()

# bench_test(threads|mpi|fake name benchmark arguments...)
set(bench_results)
set(bench_fixtures)
function(bench_test backend name benchmark)
  set(json "${CMAKE_CURRENT_BINARY_DIR}/${name}-${backend}.json")
  set(program cubist_bench)
  if(backend STREQUAL fake)
    set(program cubist_bench_fake)
  endif()
  set(command $<TARGET_FILE:${program}> ${benchmark} ${ARGN} --json "${json}")
  list(APPEND command --repeats 1)
  if(backend STREQUAL mpi)
    set(command ${MPIEXEC_EXECUTABLE} ${MPIEXEC_NUMPROC_FLAG} 4 ${command})
  endif()
  set(label "bench: ${name}, ${backend}")
  add_test(NAME "${label}" COMMAND ${command})
  set_tests_properties("${label}" PROPERTIES
    LABELS bench TIMEOUT 300 FIXTURES_SETUP "${name}-${backend}")
  if(backend STREQUAL mpi)
    set_tests_properties("${label}" PROPERTIES ENVIRONMENT "${CUBIST_MPI_ENVIRONMENT}")
  endif()
  set(bench_results ${bench_results} "${json}" PARENT_SCOPE)
  set(bench_fixtures ${bench_fixtures} "${name}-${backend}" PARENT_SCOPE)
endfunction()

# A machine for the simulator.
set(nodes "${CMAKE_CURRENT_BINARY_DIR}/nodes.json")
file(WRITE "${nodes}" [=[
{"name": "nodes of 8 cores", "cores": 8,
 "links": [{"name": "memory", "ranks": 8, "latency": 1e-6, "bandwidth": 4e9, "overlaps": false},
           {"name": "network", "latency": 2e-6, "bandwidth": 12.5e9}]}
]=])

set(backends threads)
if(TARGET cubist_mpi)
  list(APPEND backends mpi)
endif()
if(TARGET cubist_mpi)
  bench_test(mpi pgemm pgemm --shapes 40x30x20,70x5x300 --blocks 8,32)
  bench_test(mpi pgemm-triangles pgemm --routines symm,trmm,trsm,syrk --shapes 40x30x20 --blocks 8)
endif()
foreach(backend IN LISTS backends)
  bench_test(${backend} matmul matmul --sizes 65 --shapes 33x130x7 --bandwidth 1)
  bench_test(${backend} ceiling ceiling --shapes 40x30x20,64x4x4 --rank-counts 4 --scalars double)
  bench_test(${backend} planned-ceiling ceiling --shapes 40x30x20,64x4x4 --rank-counts 4 --scalars double --planned)
  bench_test(${backend} grid3d matmul --schemes grid3d --mesh 2,1,2 --sizes 33 --scalars float)
  bench_test(${backend} collective-matmul matmul --sizes 65 --schemes summa2d --method collectives)
  bench_test(${backend} mlp mlp --tokens 24 --layers 16,33,8 --optimizer adam --torch off)
  bench_test(${backend} calls calls --ranks 4)
  bench_test(${backend} muon muon --layers 16,33,8 --ways automatic,distributed --torch off)
  bench_test(${backend} traced-mlp mlp --tokens 24 --layers 16,33,8 --schemes summa2d --scalars float --ranks 4 --torch off
    --trace "${CMAKE_CURRENT_BINARY_DIR}/mlp-${backend}-trace.json")
  bench_test(${backend} mlp-beside-torch mlp --tokens 24 --layers 16,33,8 --schemes summa2d --scalars float)
  bench_test(${backend} transformer transformer --sequences 3 --length 8 --layers 2 --width 16 --heads 4 --schemes summa2d,grid3d --ranks 4)
  bench_test(${backend} generate generate --prompt 3 --tokens 3 --layers 2 --width 16 --heads 4 --vocabulary 50 --schemes megatron1d,summa2d
    --ranks 4 --weights float,q8)
  bench_test(${backend} planner planner --ranks 4 --shapes 24x16x20 --final-repeats 1)
  bench_test(${backend} collectives collectives --words 1,1000)
  bench_test(${backend} strong scaling --mode strong --shape 70x40x30)
  bench_test(${backend} weak scaling --mode weak --grow all --shape 30x40x50 --scalars float)
endforeach()
bench_test(threads lora lora --ranks 4 --sequences 3 --length 8 --layers 1 --width 16 --heads 4 --vocabulary 50 --rank 2
  --sharded)
bench_test(threads transformer-collectives transformer --sequences 3 --length 8 --layers 1 --width 16 --heads 4 --schemes megatron1d
  --ranks 3 --method collectives --optimizer none --torch off)
bench_test(threads traced-transformer transformer --sequences 3 --length 8 --layers 1 --width 16 --heads 4 --schemes summa2d
  --ranks 4 --torch off --trace "${CMAKE_CURRENT_BINARY_DIR}/transformer-threads-trace.json")
bench_test(threads transformer-breakdown transformer --sequences 3 --length 8 --layers 1 --width 16 --heads 4 --schemes summa2d
  --ranks 4 --torch off --breakdown --trace "${CMAKE_CURRENT_BINARY_DIR}/transformer-breakdown.json")
bench_test(threads breakdown-of transformer --breakdown-of "${CMAKE_CURRENT_BINARY_DIR}/transformer-breakdown.json")
set_tests_properties("bench: breakdown-of, threads" PROPERTIES FIXTURES_REQUIRED "transformer-breakdown-threads")
bench_test(threads transformer-llama transformer --model llama-block --sequences 2 --length 8 --width 32 --heads 8 --schemes summa2d
  --ranks 4 --forward)
bench_test(threads tracing tracing --ranks 4 --tokens 24 --layers 16,33,8 --steps 2)
bench_test(threads saves saves --ranks 2 --tokens 24 --layers 16,33,8 --steps 2)
bench_test(threads simulated-strong scaling --shape 70x40x30 --schemes summa2d,summa25d,cube3d --scalars float,double --extents equal
  --overlap both --simulated "${nodes}" --rank-counts 1,8,64)
bench_test(threads simulated-weak scaling --mode weak --grow all --shape 30x40x50 --method collectives
  --simulated "${nodes}" --rank-counts 1,4,16,64)
bench_test(threads elementwise elementwise --rows 7 --cols 75)
bench_test(threads weights weights --k 75 --n 33 --rows 1,17)
bench_test(threads gram gram --ranks 4 --shapes 9x14,20x5)
if(TARGET cubist_mpi)
  bench_test(mpi overlap matmul --sizes 40 --overlap both --schemes summa2d --mesh 4,1)
endif()

# One rank's step of 10 ms: 8 ms of products, 2 of them in attention, and a pass.
set(hand_made "${CMAKE_CURRENT_BINARY_DIR}/hand_made_trace.json")
file(WRITE "${hand_made}" [=[
{"traceEvents": [
{"ph": "X", "pid": 0, "tid": 0, "name": "step", "cat": "part", "ts": 0, "dur": 10000, "tdur": 9000},
{"ph": "X", "pid": 0, "tid": 0, "name": "gemm 64x32x16", "cat": "product", "ts": 0, "dur": 3500, "tdur": 3500,
 "args": {"bytes": 14336, "operands": "nt"}},
{"ph": "X", "pid": 0, "tid": 0, "name": "syrk 16x16x8", "cat": "product", "ts": 3500, "dur": 2500, "tdur": 2500,
 "args": {"bytes": 1536, "operands": "nt"}},
{"ph": "X", "pid": 0, "tid": 0, "name": "attention forward", "cat": "part", "ts": 6000, "dur": 3000, "tdur": 3000},
{"ph": "X", "pid": 0, "tid": 0, "name": "gemm 8x4x2", "cat": "product", "ts": 6000, "dur": 2000, "tdur": 2000,
 "args": {"bytes": 224, "operands": "nn"}},
{"ph": "X", "pid": 0, "tid": 0, "name": "map 8x4", "cat": "pass", "ts": 8000, "dur": 1000, "tdur": 500,
 "args": {"bytes": 256, "function": "cubist::v0::detail::Assign<cubist::Gelu>"}},
{"ph": "X", "pid": 0, "tid": 1, "name": "all_reduce 4", "cat": "communication", "ts": 9000, "dur": 1000},
{"ph": "X", "pid": 0, "tid": 0, "name": "wait for all_reduce 4", "cat": "wait", "ts": 9000, "dur": 1000, "tdur": 0}
]}
]=])
add_test(NAME "bench: the breakdown of a trace" COMMAND cubist_bench transformer --breakdown-of "${hand_made}")
set_tests_properties("bench: the breakdown of a trace" PROPERTIES LABELS bench TIMEOUT 60 PASS_REGULAR_EXPRESSION
  "gemm 64x32x16 nt +layers +1 .*syrk 16x16x8 nt +layers +1 .*gemm 8x4x2 nn +attention +1 .*map Assign<Gelu> 8x4 +attention +1 .*attention: products +2.00.*bookkeeping +0.50.*waiting, and other programs +0.100.*remainder +-?0.000")
add_test(NAME "bench: the breakdown of no trace" COMMAND cubist_bench transformer --breakdown-of "${nodes}")
set_tests_properties("bench: the breakdown of no trace" PROPERTIES LABELS bench
  PASS_REGULAR_EXPRESSION "cannot read the trace .*, so there is no step; give it a file that --trace or Traced<B> wrote")

# Wrong arguments are rejected before anything runs.
add_test(NAME "bench: a mesh that does not fit" COMMAND cubist_bench matmul --schemes cube3d --ranks 4)
set_tests_properties("bench: a mesh that does not fit" PROPERTIES
  LABELS bench PASS_REGULAR_EXPRESSION "Cube3D got 4 ranks, which is not a cube.*use 1 or 8 ranks")
foreach(wrong "--sizes;65,,33;in which a value is missing" "--ranks;010;which is not a plain whole number" "--shapes;-1x8x8;three positive sizes")
  list(GET wrong 0 option)
  list(GET wrong 1 value)
  list(GET wrong 2 error)
  add_test(NAME "bench: ${option}=${value}" COMMAND cubist_bench matmul ${option}=${value})
  set_tests_properties("bench: ${option}=${value}" PROPERTIES LABELS bench TIMEOUT 60 PASS_REGULAR_EXPRESSION "got .*${value}.*${error}")
endforeach()

# Without a GPU, tests the errors, and runs the measurements on the fake.
if(TARGET cubist_bench_gpu)
  add_test(NAME "bench: without a GPU" COMMAND cubist_bench_gpu matmul --sizes 64)
  set_tests_properties("bench: without a GPU" PROPERTIES LABELS "bench;nccl" TIMEOUT 60
    ENVIRONMENT "CUDA_VISIBLE_DEVICES=-1"
    PASS_REGULAR_EXPRESSION "found no GPU .*, but each rank needs one; look at nvidia-smi")
endif()
if(TARGET cubist_nccl)
  set(tests "${PROJECT_SOURCE_DIR}/tests")
  add_executable(cubist_bench_fake
    gpu/cubist_bench_gpu.cpp gpu/device_elementwise.cpp gpu/find_gpus.cpp gpu/step.cpp gpu/fake.cpp
    ${tests}/nccl/fake_cuda.cpp ${tests}/nccl/fake_nccl.cpp)
  target_include_directories(cubist_bench_fake SYSTEM PRIVATE ${NCCL_INCLUDE_DIR} ${CUDAToolkit_INCLUDE_DIRS})
  target_include_directories(cubist_bench_fake PRIVATE ${tests}/nccl ${PROJECT_SOURCE_DIR}/examples)
  if(NOT CUBIST_QUICK_TESTS)
    # g++ 12 thinks that the member of a reset optional is uninitialized.
    target_compile_options(cubist_bench_fake PRIVATE -O1 $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)
  endif()
  target_link_libraries(cubist_bench_fake PRIVATE cubist_bench_common cubist_warnings)
  cubist_use_precompiled(cubist_bench_fake cubist_program_precompiled)
  set_target_properties(cubist_bench_fake PROPERTIES UNITY_BUILD ON)
  set_source_files_properties(${tests}/nccl/fake_cuda.cpp ${tests}/nccl/fake_nccl.cpp PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  bench_test(fake matmul-gpu matmul --sizes 65 --shapes 33x130x7 --schemes summa25d --scalars float --ranks 8)
  bench_test(fake mlp-gpu mlp --tokens 24 --widths 16,33,8 --schemes summa25d --scalars float --ranks 8 --optimizer adam --torch off)
  bench_test(fake transformer-gpu transformer --sequences 3 --length 8 --layers 1 --width 16 --heads 4 --schemes summa25d --ranks 8 --torch off)
  bench_test(fake elementwise-gpu elementwise --shapes 33x20,5x300 --scalars float)
  bench_test(fake step-gpu step --steps 12:9,20,9:float --ranks 4 --torch off)
  # The simulator can take the measured machine.
  set(gpu_machine "${CMAKE_CURRENT_BINARY_DIR}/gpu_machine.json")
  add_test(NAME "bench: machine, fake" COMMAND cubist_bench_fake machine --ranks 3 --largest 64 --json "${gpu_machine}")
  set_tests_properties("bench: machine, fake" PROPERTIES LABELS "bench;nccl" TIMEOUT 60 FIXTURES_SETUP gpu-machine)
  add_test(NAME "bench: layers on the fake's machine"
    COMMAND cubist_bench layers --simulated "${gpu_machine}" --ranks 3 --schemes Megatron1D --shapes 24x16x20)
  set_tests_properties("bench: layers on the fake's machine" PROPERTIES
    LABELS bench TIMEOUT 60 FIXTURES_REQUIRED gpu-machine PASS_REGULAR_EXPRESSION "3 ranks, .*gpu_machine.json")
endif()

# PyTorch is measured where it is installed; elsewhere the benchmark says that it is missing.
add_test(NAME "bench: mlp without PyTorch"
  COMMAND cubist_bench mlp --tokens 24 --layers 16,8 --schemes summa2d --scalars float --repeats 1)
set_tests_properties("bench: mlp without PyTorch" PROPERTIES
  LABELS bench TIMEOUT 60 ENVIRONMENT "PYTHONPATH=${CMAKE_CURRENT_SOURCE_DIR}/peers/no_torch"
  PASS_REGULAR_EXPRESSION " -\nPyTorch is not installed")

# One process checks all results, and draws them if Python has matplotlib.
if(CUBIST_PLOT_PYTHON)
  set(plot --plot)
  if(no_matplotlib)
    set(plot)
  endif()
  add_test(NAME "bench: results and charts"
    COMMAND "${CUBIST_PLOT_PYTHON}" "${CMAKE_CURRENT_SOURCE_DIR}/scripts/check_results" ${bench_results} ${plot})
  set_tests_properties("bench: results and charts" PROPERTIES
    LABELS bench TIMEOUT 300 FIXTURES_REQUIRED "${bench_fixtures}")
endif()
if(CUBIST_PLOT_PYTHON AND NOT no_matplotlib)
  set(log "${CMAKE_CURRENT_BINARY_DIR}/run.jsonl")
  file(WRITE "${log}" "{\"step\": 1, \"loss\": 2, \"seconds\": 1}\n{\"step\": 2, \"loss\": null}\n{\"step\": 2, \"loss\": 1}\n{\"st")
  add_test(NAME "bench: the log of a run is drawn"
    COMMAND "${CUBIST_PLOT_PYTHON}" "${CMAKE_CURRENT_SOURCE_DIR}/scripts/plot" "${log}" -o "${log}.svg")
  set_tests_properties("bench: the log of a run is drawn" PROPERTIES LABELS bench)
  set(log "${CMAKE_CURRENT_BINARY_DIR}/metrics.jsonl")
  file(WRITE "${log}" "{\"step\": 1, \"loss\": 2}\n{\"step\": 2, \"loss\": 1}\n"
    "{\"step\": 2, \"loss\": 1, \"held-out loss\": 1.5, \"accuracy\": 0.5, \"words\": null}\n")
  add_test(NAME "bench: the metrics of a run are drawn"
    COMMAND bash -c "\"$0\" \"$1\" \"$2\" -o \"$2.svg\" && grep -o '>held-out loss<\\|>accuracy<\\|>words<' \"$2.svg\" | tr -d '\\n'"
      "${CUBIST_PLOT_PYTHON}" "${CMAKE_CURRENT_SOURCE_DIR}/scripts/plot" "${log}")
  set_tests_properties("bench: the metrics of a run are drawn" PROPERTIES LABELS bench
    PASS_REGULAR_EXPRESSION "^>held-out loss<>accuracy<>words<")
  add_test(NAME "bench: a log without steps"
    COMMAND "${CUBIST_PLOT_PYTHON}" "${CMAKE_CURRENT_SOURCE_DIR}/scripts/plot" "${CMAKE_CURRENT_SOURCE_DIR}/tests.cmake.jsonl" -o "${log}.svg")
  set_tests_properties("bench: a log without steps" PROPERTIES LABELS bench PASS_REGULAR_EXPRESSION "cannot read .*give it the log of a run")
endif()
if(CUBIST_BUILD_TOOLS)
  add_test(NAME "bench: the planner reads a measured machine"
    COMMAND cubist_plan --layers 64,64 --tokens 64 --ranks 4
      --machine "${CMAKE_CURRENT_BINARY_DIR}/machine.json")
  set_tests_properties("bench: the planner reads a measured machine" PROPERTIES
    LABELS bench TIMEOUT 60 FIXTURES_REQUIRED machine)
endif()

# The simulator: measures a machine, then predicts layers for it, then measures them.
set(measured_machine "${CMAKE_CURRENT_BINARY_DIR}/machine.json")
set(layers cubist_bench layers --ranks 4 --shapes 24x16x20 --every 2)
add_test(NAME "bench: machine, threads"
  COMMAND cubist_bench machine --ranks 2 --largest 64 --json "${measured_machine}")
set_tests_properties("bench: machine, threads" PROPERTIES LABELS bench TIMEOUT 60 FIXTURES_SETUP machine)
# Links from the output of other benchmarks.
file(WRITE "${CMAKE_CURRENT_BINARY_DIR}/nccl.txt" [=[
# nThread 1 nGpus 1 minBytes 8 maxBytes 1073741824 step: 2(factor)
#  Rank  0 Group  0 Pid   6899 on node-a device  0 [0000:04:00] NVIDIA H100 80GB HBM3
#  Rank  1 Group  0 Pid   6733 on node-b device  0 [0000:04:00] NVIDIA H100 80GB HBM3
#
#                                                              out-of-place                       in-place
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
           8             2     float     sum      -1    20.00    0.00    0.00      0    19.00    0.00    0.00      0
   268435456      67108864     float     sum      -1   1423.3  188.60   42.50      0   1420.2  189.01   42.70      0
  1073741824     268435456     float     sum      -1   5503.4  195.10   45.25      0   5490.5  195.56   45.50      0
# Avg bus bandwidth    : 29.1
]=])
file(WRITE "${CMAKE_CURRENT_BINARY_DIR}/osu.txt" [=[
# OSU MPI Latency Test v5.9
# Size          Latency (us)
0                       1.52
8                       1.25
4194304              2178.66
# OSU MPI Bandwidth Test v5.9
# Size      Bandwidth (MB/s)
1                       3.55
4194304             11750.25
# OSU MPI Bi-Directional Bandwidth Test v5.9
# Size      Bandwidth (MB/s)
4194304             23600.00
]=])
# bench_machine_test(name EXPECT arguments...)
function(bench_machine_test name expect)
  add_test(NAME "bench: ${name}" COMMAND cubist_bench machine ${ARGN} WORKING_DIRECTORY "${CMAKE_CURRENT_BINARY_DIR}")
  set_tests_properties("bench: ${name}" PROPERTIES LABELS bench TIMEOUT 60 PASS_REGULAR_EXPRESSION "${expect}")
endfunction()
bench_machine_test("a link of nccl-tests"
  "\"bandwidth\": 45250000000\\.0,[^}]*\"latency\": 1e-05,[^}]*\"name\": \"InfiniBand\".*from nccl-tests in nccl.txt"
  --nccl-tests nccl.txt --machine "${PROJECT_SOURCE_DIR}/machines/dgx_h100.json")
bench_machine_test("a link of the OSU micro-benchmarks"
  "\"bandwidth\": 11800000000\\.0,[^}]*\"latency\": 1\\.25e-06,[^}]*\"name\": \"memory\".*\"bandwidth\": 12500000000\\.0"
  --osu osu.txt --inside)
bench_machine_test("a table without rows" "got osu.txt without a row of nccl-tests, so the link's figures are unknown" --nccl-tests osu.txt)
bench_machine_test("a table that is not there" "cannot read no.txt, so the link's figures are unknown" --osu no.txt)
bench_machine_test("a machine without a table" "got --machine or --inside without a table" --inside)
add_test(NAME "bench: layers, simulated"
  COMMAND ${layers} --simulated "${measured_machine}" --json "${CMAKE_CURRENT_BINARY_DIR}/predicted.json")
set_tests_properties("bench: layers, simulated" PROPERTIES
  LABELS bench TIMEOUT 60 FIXTURES_REQUIRED machine FIXTURES_SETUP predicted)
add_test(NAME "bench: layers, threads"
  COMMAND ${layers} --repeats 1 --sample-seconds 0 --json "${CMAKE_CURRENT_BINARY_DIR}/measured.json")
set_tests_properties("bench: layers, threads" PROPERTIES LABELS bench TIMEOUT 60 FIXTURES_SETUP measured)
if(CUBIST_PLOT_PYTHON)
  add_test(NAME "bench: predictions beside measurements"
    COMMAND "${CUBIST_PLOT_PYTHON}" "${CMAKE_CURRENT_SOURCE_DIR}/scripts/compare" "${CMAKE_CURRENT_BINARY_DIR}/predictions.csv"
      "${CMAKE_CURRENT_BINARY_DIR}/predicted.json=${CMAKE_CURRENT_BINARY_DIR}/measured.json")
  set_tests_properties("bench: predictions beside measurements" PROPERTIES
    LABELS bench FIXTURES_REQUIRED "predicted;measured" PASS_REGULAR_EXPRESSION "13 predictions, 13 measured.*all: 13 layers")
endif()
add_test(NAME "bench: scaling, simulated"
  COMMAND cubist_bench scaling --simulated "${nodes}" --rank-counts 8,512 --schemes cube3d --shape 512x512x512)
set_tests_properties("bench: scaling, simulated" PROPERTIES LABELS bench TIMEOUT 60
  PASS_REGULAR_EXPRESSION "^simulated on nodes of 8 cores.*x 2 x y 2 x z 2 .*x 8 x y 8 x z 8 .* 1\\.000 ")
foreach(machine hosts_1gbit hosts_200mbit cluster_100gbit dgx_h100)
  add_test(NAME "bench: layers on ${machine}"
    COMMAND ${layers} --simulated "${PROJECT_SOURCE_DIR}/machines/${machine}.json")
  set_tests_properties("bench: layers on ${machine}" PROPERTIES LABELS bench TIMEOUT 60
    PASS_REGULAR_EXPRESSION "4 ranks, .*${machine}.json")
endforeach()
add_test(NAME "bench: papers"
  COMMAND cubist_bench papers --papers tesseract-4
    --json "${CMAKE_CURRENT_BINARY_DIR}/papers.json")
set_tests_properties("bench: papers" PROPERTIES LABELS bench TIMEOUT 120
  PASS_REGULAR_EXPRESSION "Summa25D +1x2x2 +12 meluxina_a100.*Summa2D / Summa25D +step +1\\.00 .*1\\.00")
add_test(NAME "bench: published steps"
  COMMAND cubist_bench papers --published --models 1b,3b --most-gpus 8
    --json "${CMAKE_CURRENT_BINARY_DIR}/published.json")
set_tests_properties("bench: published steps" PROPERTIES LABELS bench TIMEOUT 120
  PASS_REGULAR_EXPRESSION "\\| dgx_h100 \\| 1b \\| 8 \\| 14 x 1 \\| 0\\.631 \\|.*3 rows: median error [0-9.]+ %, worst [0-9]+ %")
add_test(NAME "bench: papers on another machine"
  COMMAND cubist_bench papers --papers tesseract-4 --own-links --machine dgx_h100 WORKING_DIRECTORY /)
set_tests_properties("bench: papers on another machine" PROPERTIES LABELS bench TIMEOUT 120
  PASS_REGULAR_EXPRESSION "Summa25D +1x2x2 +12 dgx_h100")
if(TARGET cubist_mpi)
  foreach(what "machine --largest 64" "layers --shapes 24x16x20 --overlap both --repeats 1 --sample-seconds 0")
    separate_arguments(words UNIX_COMMAND "${what}")
    list(GET words 0 name)
    add_test(NAME "bench: ${name}, mpi"
      COMMAND ${MPIEXEC_EXECUTABLE} ${MPIEXEC_NUMPROC_FLAG} 2 $<TARGET_FILE:cubist_bench> ${words})
    set_tests_properties("bench: ${name}, mpi" PROPERTIES
      LABELS bench TIMEOUT 120 ENVIRONMENT "${CUBIST_MPI_ENVIRONMENT}")
  endforeach()
endif()

# Traces can be drawn, and docs/traces.md shows the picture that its commands draw.
add_test(NAME "bench: a trace of several measurements" COMMAND cubist_bench mlp --trace several.json)
set_tests_properties("bench: a trace of several measurements" PROPERTIES
  LABELS bench PASS_REGULAR_EXPRESSION "got --trace for [0-9]+ measurements, but a trace shows only one; choose it with")
set(panels cubist_bench layers --ranks 4 --schemes summa2d --mesh 2,2 --shapes 2048x2048x2048
  --simulated "${PROJECT_SOURCE_DIR}/machines/hosts_1gbit.json")
foreach(overlap on off)
  add_test(NAME "bench: panels, overlap ${overlap}"
    COMMAND ${panels} --overlap ${overlap} --trace "${CMAKE_CURRENT_BINARY_DIR}/overlap_${overlap}.json")
  set_tests_properties("bench: panels, overlap ${overlap}" PROPERTIES LABELS bench TIMEOUT 60 FIXTURES_SETUP panels)
endforeach()
add_test(NAME "bench: a trace of chosen ranks"
  COMMAND ${panels} --trace "${CMAKE_CURRENT_BINARY_DIR}/chosen_ranks.json" --trace-ranks 3,1)
set_tests_properties("bench: a trace of chosen ranks" PROPERTIES LABELS bench TIMEOUT 60 FIXTURES_SETUP chosen-ranks)
add_test(NAME "bench: a trace of a rank that is not there" COMMAND ${panels} --trace missing.json --trace-ranks 4)
set_tests_properties("bench: a trace of a rank that is not there" PROPERTIES
  LABELS bench TIMEOUT 60 PASS_REGULAR_EXPRESSION "got rank 4 for a trace of 4 ranks, .*use 0 to 3")
if(CUBIST_PLOT_PYTHON)
  set(draw "${CUBIST_PLOT_PYTHON}" "${CMAKE_CURRENT_SOURCE_DIR}/scripts/draw_trace")
  foreach(trace mlp-threads mlp-mpi transformer-threads)
    string(REGEX MATCH "[a-z]+$" backend ${trace})
    if(backend IN_LIST backends)
      set(drawing "${CMAKE_CURRENT_BINARY_DIR}/${trace}-trace")
      add_test(NAME "bench: the trace of ${trace} is drawn" COMMAND ${draw} "${drawing}.json" -o "${drawing}.svg")
      set_tests_properties("bench: the trace of ${trace} is drawn" PROPERTIES
        LABELS bench FIXTURES_REQUIRED "traced-${trace}" PASS_REGULAR_EXPRESSION "svg: 1 chart, 4 ranks, [0-9][0-9]+ spans")
    endif()
  endforeach()
  add_test(NAME "bench: a trace of chosen ranks is drawn" COMMAND ${draw} chosen_ranks.json -o chosen_ranks.svg
    WORKING_DIRECTORY "${CMAKE_CURRENT_BINARY_DIR}")
  set_tests_properties("bench: a trace of chosen ranks is drawn" PROPERTIES
    LABELS bench FIXTURES_REQUIRED chosen-ranks PASS_REGULAR_EXPRESSION "svg: 1 chart, 2 ranks, [0-9][0-9]+ spans")
  set(drawing "${CMAKE_CURRENT_BINARY_DIR}/summa2d_overlap.svg")
  add_test(NAME "bench: panels are drawn"
    COMMAND ${draw} overlap_on.json overlap_off.json --around "Summa2D forward" --titles "with overlap,without overlap"
      --ranks 2 -o "${drawing}"
    WORKING_DIRECTORY "${CMAKE_CURRENT_BINARY_DIR}")
  set_tests_properties("bench: panels are drawn" PROPERTIES
    LABELS bench FIXTURES_REQUIRED panels FIXTURES_SETUP panels-drawn)
  add_test(NAME "bench: the picture of traces.md"
    COMMAND "${CMAKE_COMMAND}" -E compare_files "${PROJECT_SOURCE_DIR}/docs/summa2d_overlap.svg" "${drawing}")
  set_tests_properties("bench: the picture of traces.md" PROPERTIES LABELS bench FIXTURES_REQUIRED panels-drawn)
  if(CUBIST_BUILD_TOOLS)
    add_test(NAME "bench: a trace of a ring"
      COMMAND cubist_plan --model qwen2.5-0.5b --tokens 2048 --sequence 2048 --ranks 4 --scheme Grid3D --mesh 2,1,2 --forward
        --machine "${PROJECT_SOURCE_DIR}/machines/hosts_1gbit.json" --simulate --trace "${CMAKE_CURRENT_BINARY_DIR}/ring.json")
    set_tests_properties("bench: a trace of a ring" PROPERTIES LABELS bench TIMEOUT 120 FIXTURES_SETUP ring)
    set(drawing "${CMAKE_CURRENT_BINARY_DIR}/ring_attention.svg")
    add_test(NAME "bench: a ring is drawn"
      COMMAND ${draw} ring.json --around "RingAttention forward" --depth 2 --titles "one sequence on 4 ranks" -o "${drawing}"
      WORKING_DIRECTORY "${CMAKE_CURRENT_BINARY_DIR}")
    set_tests_properties("bench: a ring is drawn" PROPERTIES LABELS bench FIXTURES_REQUIRED ring FIXTURES_SETUP ring-drawn)
    add_test(NAME "bench: the picture of a ring in tensor_parallelism.md"
      COMMAND "${CMAKE_COMMAND}" -E compare_files "${PROJECT_SOURCE_DIR}/docs/ring_attention.svg" "${drawing}")
    set_tests_properties("bench: the picture of a ring in tensor_parallelism.md" PROPERTIES LABELS bench FIXTURES_REQUIRED ring-drawn)
  endif()
  add_test(NAME "bench: a part that a trace lacks"
    COMMAND ${draw} overlap_on.json --around Summa3D -o "${drawing}" WORKING_DIRECTORY "${CMAKE_CURRENT_BINARY_DIR}")
  set_tests_properties("bench: a part that a trace lacks" PROPERTIES LABELS bench FIXTURES_REQUIRED panels
    PASS_REGULAR_EXPRESSION "without a part \"Summa3D\", so there is no time to show; name one of Summa2D backward")
endif()

find_program(CUBIST_BASH bash)
if(CUBIST_BASH)
  add_test(NAME "bench: scaling.sbatch"
    COMMAND "${CUBIST_BASH}" -n "${CMAKE_CURRENT_SOURCE_DIR}/slurm/scaling.sbatch")
  set_tests_properties("bench: scaling.sbatch" PROPERTIES LABELS bench)
endif()
