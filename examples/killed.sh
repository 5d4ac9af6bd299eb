#!/usr/bin/env bash
# killed.sh KILLS PROGRAM [MPIEXEC]: train_digits saves a checkpoint after every step, and is killed KILLS times at random
# moments: the process, or one rank of 4 under mpiexec. Each time the newest checkpoint must load, and be no older than
# the last one that was loaded; finally the losses must be, to the bit, those of a run without interruption.
set -euo pipefail
kills="$1" program="$2" mpiexec="${3:-}"
folder="$(mktemp -d)"
trap 'rm -rf "$folder"' EXIT
cd "$folder"
RANDOM="${SEED:-$$}"

train=("$program" --scheme summa2d --mesh 2,2 --scalar double --dropout 0.1 --hidden 32)
job=("${train[@]}")
[[ -z $mpiexec ]] || job=("$mpiexec" --quiet -n 4 "${train[@]}")

fail() {
  printf '%s\n' "$1; the run printed:" "$(cat log)" >&2
  exit 1
}

step=0 loaded=0
# Checks from which step the run in `log` continued.
check_log() {
  local began
  began="$(sed -n 's/^goes on from step //p' log)"
  if [[ -z $began ]]; then
    ! grep -qi 'error\|cannot\|damaged' log || fail "the run could not continue"
    return 0 # killed before it printed the step
  fi
  ((began >= step)) || fail "the run continued from step $began, and had been at $step"
  step="$began" loaded=$((loaded + 1))
}

for ((kill = 0; kill < kills; ++kill)); do
  "${job[@]}" --steps 1000000 --every 1 --keep 2 --checkpoints saved >log 2>&1 &
  pid=$!
  milliseconds=$((${#mpiexec} > 0 ? RANDOM % 1200 + 400 : RANDOM % 250))
  sleep "$((milliseconds / 1000)).$(printf '%03d' $((milliseconds % 1000)))"
  victim="$pid"
  if [[ -n $mpiexec ]]; then
    read -ra ranks <"/proc/$pid/task/$pid/children" || true
    ((${#ranks[@]} == 0)) || victim="${ranks[RANDOM % ${#ranks[@]}]}"
  fi
  builtin kill -KILL "$victim" || fail "the run ended before it was killed"
  wait "$pid" 2>/dev/null && fail "the run ended before it was killed"
  check_log
done

last=$((step + 1000))
"${job[@]}" --steps "$last" --every 1000000 --checkpoints saved --losses continued >log 2>&1 || fail "the last run failed"
check_log
((loaded > 0)) || fail "no run lived long enough to save anything"
"${train[@]}" --steps "$last" --losses whole >/dev/null || true # after a long run, one rank differs by more than the bound: not tested here
cmp continued <(tail -n "$(wc -l <continued)" whole) || fail "the losses are not those of an uninterrupted run"
echo "killed $kills times; $loaded runs continued from a checkpoint, the last one from step $step; then $(wc -l <continued) losses to the bit"
