#!/usr/bin/env bash
# check.sh COUNT PROGRAM MPIEXEC [FIRST]: runs tests/soak/soak.cpp under mpiexec, where each run is a separate job.
set -euo pipefail
count="$1" program="$2" mpiexec="$3" first="${4:-0}"
folder="$(mktemp -d)"
trap 'rm -rf "$folder"' EXIT

# Only mpiexec can name the rank of a process that was killed, so it must not be quiet. MPICH's names the process instead.
unset OMPI_MCA_orte_execute_quiet
run() { timeout -k 5 40 "$mpiexec" -n 4 "$program" "$@" "$folder/run" 2>&1; }
fail() {
  printf 'seed %d: %s; the job printed:\n%s\n' "$seed" "$1" "$output" >&2
  exit 1
}

# Even and odd seeds multiply by different methods, and their sums may differ in the last bit.
undisturbed=()
for seed in 0 1; do
  rm -rf "$folder/run"
  output="$(run whole "$seed")" || fail "the undisturbed run failed"
  undisturbed+=("$output")
done
completed=0 ended=0 longest=0
for ((seed = first; seed < first + count; ++seed)); do
  rm -rf "$folder/run"
  begin="$(date +%s%N)"
  output="$(run faulty "$seed")" && status=0 || status=$?
  milliseconds=$((($(date +%s%N) - begin) / 1000000))
  ((milliseconds <= longest)) || longest="$milliseconds"
  ((milliseconds < 30000)) || fail "the job took $milliseconds ms"
  if ((status == 0)); then
    completed=$((completed + 1))
  else
    ended=$((ended + 1))
    grep -qE 'rank [0-9]|^=   PID [0-9]+ RUNNING AT ' <<<"$output" || fail "the job ended with $status and names no rank"
    output="$(run whole "$seed")" || fail "the job could not be continued"
  fi
  expected="${undisturbed[seed % 2]}"
  [[ $output == "$expected" ]] || fail "the loss should be $expected"
done
echo "$count faults: $completed jobs completed, $ended failed and were continued; the longest took $longest ms"
