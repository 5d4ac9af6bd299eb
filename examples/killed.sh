#!/usr/bin/env bash
# killed.sh KILLS PROGRAM [MPIEXEC|elsewhere|stages]: train_digits saves a checkpoint after every step, in every second run while it
# goes on, and is killed KILLS times at random moments: the process, or one rank of 4 under mpiexec. Each time the newest checkpoint must load, and be no older than
# the last one that was loaded; in the end the losses must equal those of an uninterrupted run to the bit. "elsewhere" continues
# on a random scheme, mesh and number of replicas, which share the optimizer's state; the losses then agree to 1e-9. "stages" does
# so with train_stages, each time with a different cut into data, stages and tensor.
set -euo pipefail
kills="$1" program="$2" mpiexec="${3:-}" bound=0
cuts=("--replicas 1 --scheme summa2d --mesh 2,2")
options=(--scalar double --dropout 0.1 --hidden 32 --no-compare)
if [[ $mpiexec == elsewhere ]]; then
  mpiexec='' bound=1e-9
  for cut in "2 summa2d 2,2" "4 megatron1d 2" "2 cube3d 2,2,2" "1 summa25d 2,2,2" "3 grid3d 1,1,2" "1 summa2d 1,1"; do
    read -r replicas scheme mesh <<<"$cut"
    cuts+=("--replicas $replicas --scheme $scheme --mesh $mesh")
  done
elif [[ $mpiexec == stages ]]; then
  mpiexec='' bound=1e-6
  # A micro-batch contains the same sequences in each cut.
  options=(--scalar double --layers 4 --width 16 --heads 4 --length 16 --batch 8 --micro-batches 4 --constant-rate)
  cuts=("--stages 1")
  for cut in "1 2 1,2,2 1" "2 2 2,1,1 1" "1 4 1,1,1 1" "1 2 2,1,1 2" "2 1 1,2,2 1"; do
    read -r replicas stages mesh pieces <<<"$cut"
    cuts+=("--replicas $replicas --stages $stages --mesh $mesh --pieces $pieces")
  done
fi
folder="$(mktemp -d)"
trap 'rm -rf "$folder"' EXIT
cd "$folder"
RANDOM="${SEED:-$$}"

train=("$program" "${options[@]}")
[[ -z $mpiexec ]] || train=("$mpiexec" -n 4 "${train[@]}")
# Sets `cut` to the options of a random mesh.
choose_mesh() { read -ra cut <<<"${cuts[RANDOM % ${#cuts[@]}]}"; }

fail() {
  printf '%s\n' "$1; the run printed:" "$(cat log)" >&2
  exit 1
}

step=0 loaded=0 window=250
# Checks from which step the run in `log` continued.
check_log() {
  local began
  began="$(sed -n 's/^goes on from step //p' log)"
  if [[ -z $began ]]; then
    ! grep -qi 'error\|cannot\|damaged' log || fail "the run could not continue"
    window=$((window + 50)) # killed before it printed the step
    return 0
  fi
  ((began >= step)) || fail "the run continued from step $began, and had been at $step"
  step="$began" loaded=$((loaded + 1))
}

for ((kill = 0; kill < kills; ++kill)); do
  choose_mesh
  background=()
  [[ ${cuts[0]} == --stages* ]] || ((kill % 2 == 1)) || background=(--background)
  "${train[@]}" "${cut[@]}" "${background[@]}" --steps 1000000 --every 1 --checkpoints saved >log 2>&1 &
  pid=$!
  # On a slow machine no run may have begun in time: the last one is killed after it has saved.
  for ((tries = 0; kill == kills - 1 && loaded == 0 && tries < 600; ++tries)); do
    ! compgen -G 'saved/step-*.safetensors' >/dev/null || break
    sleep 0.1
  done
  milliseconds=$((${#mpiexec} > 0 ? RANDOM % 1200 + 400 : RANDOM % window))
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

last=$((step + 300))
choose_mesh
"${train[@]}" "${cut[@]}" --steps "$last" --every 1000000 --checkpoints saved --losses continued >log 2>&1 ||
  fail "the last run failed"
check_log
((loaded > 0)) || fail "no run lived long enough to save anything"
read -ra cut <<<"${cuts[0]}"
"$program" "${options[@]}" "${cut[@]}" --steps "$last" --losses whole >/dev/null
paste continued <(tail -n "$(wc -l <continued)" whole) | awk -v bound="$bound" '
  { d = ($1 - $2) / $2; if (d < 0) d = -d; if (d > worst) worst = d }
  END { printf "largest relative difference of %d losses: %.1e\n", NR, worst; exit !(NR > 0 && worst <= bound) }' ||
  fail "the losses are not those of an uninterrupted run"
echo "killed $kills times; $loaded runs continued from a checkpoint, the last one from step $step"
