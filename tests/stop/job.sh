#!/usr/bin/env bash
# job.sh COMMAND…: a job script that lets the program stop, and returns its code.
trap 'trap "" USR1 TERM; kill -USR1 "$job"' USR1 TERM
"$@" &
job=$!
wait "$job" # until the program ends, or a signal comes
wait "$job"
