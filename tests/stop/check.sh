#!/usr/bin/env bash
# check.sh HOW PROGRAM [MPIEXEC]: sends a signal to the program, or to 4 ranks of it under mpiexec. The program must stop
# within a step, save a checkpoint of that step, and return 75. Started again, it must reach the result of an undisturbed run.
#   HOW  SIGNAL         sends it to the program, or to mpiexec
#        rank-SIGNAL    sends it to the process of one rank
#        script-SIGNAL  sends it to a job script (job.sh), which sends SIGUSR1
#   SIGNAL  TERM | USR1 | TERM-USR1, which sends the second one while the program stops
set -euo pipefail
how="$1" program="$2" mpiexec="${3:-}"
folder="$(mktemp -d)"
pid=
trap '[[ -z $pid ]] || kill -KILL "$pid" 2>/dev/null; rm -rf "$folder"' EXIT
log="$folder/log"
job=("$program")
[[ -z $mpiexec ]] || job=("$mpiexec" -n 4 "$program")

fail() {
  printf '%s\n' "$1; the run printed:" "$(cat "$log")" >&2
  exit 1
}
# Prints the last step that the run has printed.
step() { sed -n 's/^\(did\|stops after\) step //p' "$log" | tail -n 1; }

script=()
[[ $how != script-* ]] || script=("$BASH" "$(dirname "$0")/job.sh")
"${script[@]}" "${job[@]}" "$folder/saved" 1000000 200 >"$log" 2>&1 &
pid=$!
for ((tenths = 0; tenths < 300; ++tenths)); do
  [[ -z "$(step)" ]] || (($(step) < 2)) || break
  sleep 0.1
done
victim="$pid"
if [[ $how == rank-* ]]; then
  read -ra ranks <"/proc/$pid/task/$pid/children" || true
  # MPICH's mpiexec starts one process on each node, which starts the ranks.
  ((${#ranks[@]} > 1)) || read -ra ranks <"/proc/${ranks[0]}/task/${ranks[0]}/children" || true
  victim="${ranks[2]}"
fi
signals="${how#rank-}"
for signal in $(tr '-' ' ' <<<"${signals#script-}"); do
  kill "-$signal" "$victim" || fail "the run ended before the signal"
  before="${before:-$(step)}"
done
wait "$pid" && status=0 || status=$?
pid=
sed -i -f "$(dirname "$0")/../support/mpiexec_messages.sed" "$log"
after="$(step)"
echo "signal after step $before; stopped after step $after with $status"
((status == 75)) || fail "the run ended with $status"
[[ "$(tail -n 1 "$log")" == "stops after step $after" ]] || fail "the run did not stop after step $after"
((after <= before + 2)) || fail "the run stopped after step $after, and had done $before at the signal"
[[ "$(ls "$folder/saved")" == "$(printf 'step-%012d.safetensors' "$after")" ]] || fail "the checkpoint is not that of step $after"

last=$((after + 5))
"${job[@]}" "$folder/saved" "$last" 0 >"$log" 2>&1 || fail "the run could not be started again"
[[ "$(head -n 1 "$log")" == "starts after step $after" ]] || fail "the run did not continue"
sum="$(tail -n 1 "$log")"
"${job[@]}" "$folder/undisturbed" "$last" 0 >"$log" 2>&1 || fail "the undisturbed run failed"
[[ $sum == "$(tail -n 1 "$log")" ]] || fail "the result is $sum"
