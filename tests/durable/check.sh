#!/usr/bin/env bash
# check.sh SHIM PROGRAM CASES: runs test cases that save files under the shim, which fails at a rename without fsync. The
# shim must have checked at least one rename.
set -euo pipefail
shim="$1" program="$2" cases="$3"
renames="$(mktemp)"
trap 'rm -f "$renames"' EXIT
LD_PRELOAD="$shim" CUBIST_DURABLE_RENAMES="$renames" "$program" "$cases"
sum=0
while read -r count; do sum=$((sum + count)); done <"$renames"
echo "$sum renames were checked"
((sum > 0))
