#!/usr/bin/env bash
# check.sh MPIEXEC PROGRAM WHAT [MESSAGE]: checks that a job of 4 ranks, one of which fails, ends soon with a non-zero status,
# and prints the reason once, as its last line.
set -euo pipefail
mpiexec="$1" program="$2" what="$3" message="${4:-}"

fail() {
  printf '%s\n' "$1; the job printed:" "$output" >&2
  exit 1
}

begin="$(date +%s%N)"
output="$(timeout -k 5 30 "$mpiexec" -n 4 "$program" "$what" 2>&1 | tr -d '\0')" && status=0 || status=$?
milliseconds=$((($(date +%s%N) - begin) / 1000000))
echo "the job ended with $status after $milliseconds ms"
output="$(sed -f "$(dirname "$0")/../support/mpiexec_messages.sed" <<<"$output")"

most=10000
[[ $what != "returns early" && $what != "gathers alone" ]] || most=5000
((milliseconds < most)) || fail "the job took longer than $most ms"
if [[ $what == "none throws" ]]; then
  [[ $status == 0 && -z $output ]] || fail "the job failed"
  exit
fi
((status != 0)) || fail "the job succeeded"
if [[ -n $message ]]; then
  [[ "$(grep -cF -- "$message" <<<"$output")" == 1 ]] || fail "the message was not printed once"
  [[ "$(tail -n 1 <<<"$output")" == *"$message"* ]] || fail "the message is not the last line"
  [[ "$(grep -c '^cubist: ' <<<"$output")" == 1 ]] || fail "there are other messages"
fi
