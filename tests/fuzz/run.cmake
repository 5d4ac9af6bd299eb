# Run with -P; see ../fuzz.cmake. What libFuzzer finds worth keeping goes to WORK_DIR, the same on every run.
cmake_minimum_required(VERSION 3.24)
file(REMOVE_RECURSE "${WORK_DIR}")
file(MAKE_DIRECTORY "${WORK_DIR}/found")
execute_process(
  COMMAND "${FUZZER}" -seed=1 -runs=20000 -max_len=1024 -timeout=10 -rss_limit_mb=1024 -print_final_stats=1
    "-artifact_prefix=${WORK_DIR}/" "${WORK_DIR}/found" "${CORPUS}"
  COMMAND_ERROR_IS_FATAL ANY)
