#!/usr/bin/env bash
# text.sh TRAIN_TEXT GENERATE [MPIEXEC]: train_text stops at step 20 and continues to step 40 on other schemes, meshes and
# numbers of ranks, on threads and on MPI. Its losses must be those of a run that did not stop, to 1e-9. The model that it
# saves must write the same text on every mesh, from bytes and from ids, and predict a text as well when its weights have fewer
# bits. A trace must name what the last rank did.
set -euo pipefail
data="$(dirname "$(realpath "$0")")/data/moses.txt"
train="$1" generate="$2" mpiexec="${3:-}"
folder="$(mktemp -d)"
trap 'rm -rf "$folder"' EXIT
cd "$folder"

options=(--scalar double --layers 2 --width 32 --heads 4 --length 32 --batch 6 --dropout 0.1 --sample 0 --test 8)
"$train" "${options[@]}" --steps 40 --scheme summa25d --mesh 1,2,2 --losses whole --save model >/dev/null
"$train" "${options[@]}" --steps 40 --scheme summa25d --mesh 1,2,2 --checkpoints half --every 20 >/dev/null
rm half/step-000000000040.safetensors

# go_on NAME COMMAND...
go_on() {
  local name="$1"
  shift
  cp -r half "$name"
  "$@" "${options[@]}" --steps 40 --checkpoints "$name" --losses "$name.losses" >"$name.log"
  grep -q 'goes on from step 20' "$name.log"
  paste <(tail -n 20 whole) "$name.losses" | awk -v name="$name" '
    { d = ($1 - $2) / $1; if (d < 0) d = -d; if (d > worst) worst = d }
    END {
      printf "%-28s %d losses, largest relative difference %.1e\n", name, NR, worst
      exit !(NR == 20 && worst <= 1e-9)
    }'
}
# prints NAME WANTED COMMAND...: the command prints the file.
prints() {
  local name="$1" wanted="$2"
  shift 2
  "$@" >"$name.out"
  cmp "$wanted" "$name.out"
  printf '%-28s the same text\n' "$name"
}

"$train" "${options[@]}" --steps 4 --scheme summa25d --mesh 2,2,2 --trace trace.json >/dev/null
for span in 'forward of block 1' 'backward of block 0' 'update of parameter 0' 'all_reduce [0-9]+'; do
  grep -Eq "\"name\":\"$span\",\"ph\":\"X\",\"pid\":7" trace.json
done

drawn=(model --text "And the LORD" --tokens 20 --temperature 1 --top-k 30 --seed 3)
likely=(model --ids 65,110,100,32 --tokens 20)
"$generate" "${drawn[@]}" >text
"$generate" "${likely[@]}" >ids
grep -q '^And the LORD' text
grep -Eq '^65,110,100,32(,[0-9]+){20}$' ids
# Prompts from standard input, and weights in fewer bits: an empty line ends each answer.
printf '65 110 100 32\n65,110\n' | "$generate" model --stdin --tokens 20 --weights bfloat16 >lines 2>figures
[[ $(grep -c '^$' lines) == 2 && $(grep -c '^[0-9]' lines) == 40 ]]
head -c 20000 "$data" >begin
for weights in float bfloat16 half q8; do
  "$generate" model --score begin --scheme megatron1d --mesh 2 --weights "$weights"
done | tee scores
awk 'NR == 1 { float = $1 } { d = ($1 - float) / float; if (d < 0) d = -d; if (d > worst) worst = d }
  END { exit !(NR == 4 && float > 1 && float < 8 && worst < 0.01) }' scores
grep -Eq '^20 tokens after 2: the first after [0-9.]+ s, then [0-9.]+ a second; at most [0-9]+ MiB a rank$' figures

for cut in "8 summa25d 2,2,2" "6 grid3d 1,2,3" "3 megatron1d 3"; do
  read -r ranks scheme mesh <<<"$cut"
  at=(--scheme "$scheme" --mesh "$mesh")
  recompute=()
  [[ $scheme != grid3d ]] || recompute=(--recompute 1)
  go_on "$scheme $mesh threads" "$train" "${at[@]}" "${recompute[@]}"
  prints "$scheme text" text "$generate" "${drawn[@]}" "${at[@]}"
  prints "$scheme ids" ids "$generate" "${likely[@]}" "${at[@]}"
  # Without --mesh, the model runs on all ranks that mpiexec has started: the last one has a trace.
  [[ -z $mpiexec || $scheme != megatron1d ]] || {
    prints "$scheme text on all ranks" text "$mpiexec" -n "$ranks" "$generate" "${drawn[@]}" --scheme "$scheme" --trace all.json
    grep -q "\"pid\":$((ranks - 1))," all.json
  }
  [[ -z $mpiexec || $scheme == summa25d ]] || {
    go_on "$scheme $mesh mpi" "$mpiexec" -n "$ranks" "$train" "${at[@]}"
    prints "$scheme text mpi" text "$mpiexec" -n "$ranks" "$generate" "${drawn[@]}" "${at[@]}"
  }
done
