#!/usr/bin/env bash
# resume.sh PROGRAM [MPIEXEC]: train_digits stops at step 50 on Summa25D and continues to step 100 on other schemes, meshes
# and numbers of ranks, on threads and on MPI. Its losses must be those of a run that did not stop: on the mesh that it
# stopped on to the last bit, elsewhere to 1e-10.
set -euo pipefail
program="$1" mpiexec="${2:-}"
folder="$(mktemp -d)"
trap 'rm -rf "$folder"' EXIT
cd "$folder"

options=(--scalar double --dropout 0.1)
stopped_on=(--scheme summa25d --mesh 2,2,2)
"$program" "${options[@]}" "${stopped_on[@]}" --steps 100 --losses whole >/dev/null
options+=(--no-compare) # with one rank, to 1e-9: the run that does not stop is
"$program" "${options[@]}" "${stopped_on[@]}" --steps 50 --checkpoints half >/dev/null

# go_on BOUND NAME COMMAND...
go_on() {
  local bound="$1" name="$2"
  shift 2
  cp -r half "$name"
  "$@" "${options[@]}" --steps 100 --checkpoints "$name" --losses "$name.losses" >"$name.log"
  grep -q 'goes on from step 50' "$name.log"
  paste <(tail -n 50 whole) "$name.losses" | awk -v bound="$bound" -v name="$name" '
    { d = ($1 - $2) / $1; if (d < 0) d = -d; if (d > worst) worst = d }
    END {
      printf "%-28s %d losses, largest relative difference %.1e\n", name, NR, worst
      exit !(NR == 50 && worst <= bound)
    }'
}

go_on 0 "summa25d 2,2,2 threads" "$program" "${stopped_on[@]}"
for cut in "1 summa2d 1,1" "4 summa2d 2,2" "6 grid3d 1,2,3" "8 cube3d 2,2,2"; do
  read -r ranks scheme mesh <<<"$cut"
  go_on 1e-10 "$scheme $mesh threads" "$program" --scheme "$scheme" --mesh "$mesh"
  [[ -z $mpiexec ]] ||
    go_on 1e-10 "$scheme $mesh mpi" "$mpiexec" -n "$ranks" "$program" --scheme "$scheme" --mesh "$mesh"
done
[[ -z $mpiexec ]] || go_on 0 "summa25d 2,2,2 mpi" "$mpiexec" -n 8 "$program" "${stopped_on[@]}"
