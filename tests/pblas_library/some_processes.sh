#!/usr/bin/env bash
# some_processes.sh MPIEXEC PROGRAM LIBRARY: runs a program that uses ScaLAPACK, with the library in only some of its 4
# processes, as if LD_PRELOAD or CUBIST_PBLAS reached only some nodes. It must end with the right result or with a message, and
# never hang without a word.
set -euo pipefail
mpiexec="$1" program="$2" library="$3"

fail() {
  printf '%s\n' "$1; the job printed:" "$output" >&2
  exit 1
}
# run "SETTING..." "SETTING...": runs with these settings in the environments of processes 0 and 1, and of 2 and 3
run() {
  # shellcheck disable=SC2086 # several settings
  output="$(timeout -k 5 60 "$mpiexec" -n 2 env $1 "$program" : -n 2 env $2 "$program" 2>&1 | tr -d '\0')" && status=0 || status=$?
}
multiplies() { [[ $status == 0 && $output == *"C(1, 1) = 2000, and 2 n = 2000"* ]] || fail "$1: no result"; }
says() { [[ $output == *"$1"* ]] || fail "the message is missing: $1"; }

preload="LD_PRELOAD=$library"
run "$preload" "$preload CUBIST_PBLAS=off"
multiplies "the setting is off in some processes"
says "cubist: got CUBIST_PBLAS=off on process (1, 0) but not on process (0, 0)"
[[ "$(grep -c '^cubist: ' <<<"$output")" == 1 ]] || fail "there are other messages"

run "$preload CUBIST_PBLAS=off" "A=B"
multiplies "the setting is off, and the library is missing in some processes"

run "$preload CUBIST_PBLAS_TIME_LIMIT=1" "A=B"
[[ $status != 0 && $status != 124 ]] || fail "the library is missing in some processes: the job ended with $status"
says "reached the time limit"
says "start it with mpiexec -x LD_PRELOAD"

run "$preload CUBIST_PBLAS=OFF" "$preload"
[[ $status != 0 && $status != 124 ]] || fail "an unknown setting: the job ended with $status"
says "got CUBIST_PBLAS=OFF, which is not a setting"
