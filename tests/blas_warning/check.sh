#!/usr/bin/env bash
# check.sh KERNELS on|off TIMES COMMAND...: checks that a program whose OpenBLAS must run these kernels prints the warning
# TIMES times on standard error, and nothing else. Skips (77) if OpenBLAS cannot run them, or is not the BLAS.
set -euo pipefail
kernels="$1" requested="$2" times="$3"
shift 3

errors="$(mktemp)"
trap 'rm -f "$errors"' EXIT
unset CUBIST_BLAS_WARNING
[[ $requested == on ]] || export CUBIST_BLAS_WARNING=off
runs="$(OPENBLAS_CORETYPE="$kernels" "$@" 2>"$errors")"
cat "$errors"
if [[ $runs != "$kernels" ]]; then
  echo "BLAS runs kernels for $runs instead of $kernels, or this processor has no better ones"
  exit 77
fi
warning="cubist: OpenBLAS runs its kernels for $kernels on a processor that has .*, so .*; start the program with"
found="$(grep -c "^$warning" "$errors" || true)"
lines="$(wc -l <"$errors")"
if [[ $found != "$times" || $lines != "$times" ]]; then
  echo "there are $found warnings in $lines lines, but there should be $times"
  exit 1
fi
