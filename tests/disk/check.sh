#!/usr/bin/env bash
# check.sh PROGRAM: runs tests/stop/stop.cpp, which saves checkpoints in the background, on disks that refuse them: one is full,
# one is read-only, and one has a folder that another run uses. Each time the error must name the file and the cause. Once the disk
# accepts checkpoints, the run must go on from one that it saved before. Exits with 77 if the kernel permits no such disks.
set -euo pipefail
program="$1"
if [[ -z ${CUBIST_DISK:-} ]]; then
  apart=(unshare --mount)
  [[ $EUID == 0 ]] || apart+=(--user --map-root-user)
  folder="$(mktemp -d)"
  trap 'rm -r "$folder"' EXIT
  mkdir "$folder/disk"
  "${apart[@]}" mount -t tmpfs none "$folder/disk" || exit 77
  CUBIST_DISK="$folder" "${apart[@]}" "$0" "$program"
  exit
fi
disk="$CUBIST_DISK/disk" log="$CUBIST_DISK/log"
fail() {
  printf '%s\n' "$1; the run printed:" "$(cat "$log")" >&2
  exit 1
}
# Sets `step` to the newest checkpoint's step.
find_newest() {
  step="$(ls "$disk/saved" | sed -n 's/^step-0*\([0-9]*\)\.safetensors$/\1/p' | tail -n 1)"
}
# refused CAUSE STEP: checks that the run fails with the cause, and leaves a checkpoint of STEP or a later step.
refused() {
  ! "$program" "$disk/saved" 1000 0 >"$log" 2>&1 || fail "the run does not notice that the disk refuses"
  grep -q "cubist: rank [0-9]*: cannot .*$disk/saved.*$1" "$log" || fail "no error with '$1'"
  find_newest
  ((step >= $2)) || fail "the newest checkpoint is that of step $step"
}
# Checks that the run goes on from a step, and saves again.
goes_on() {
  "$program" "$disk/saved" "$(($1 + 2))" 0 >"$log" 2>&1 || fail "the run does not go on"
  grep -q "^starts after step $1$" "$log" || fail "the run starts after another step than $1"
}

mount -t tmpfs -o size=1m none "$disk"
mkdir "$disk/saved"
"$program" "$disk/saved" 3 0 >"$log"
# Two pages are left, enough for the file of the next checkpoint, but not for all ranks' marks.
head -c "$((1048576 - 4096 * 3))" /dev/zero >"$disk/other"
refused "No space left on device" 3
[[ "$(ls "$disk/saved")" == step-*"$step".safetensors ]] || fail "there is more than a checkpoint"
rm "$disk/other"
goes_on "$step"

mount -o remount,ro "$disk"
refused "Read-only file system" 5
mount -o remount,rw "$disk"
goes_on "$step"

find_newest
before="$step"
"$program" "$disk/saved" 1000000 100 >/dev/null &
other=$!
trap 'kill -KILL "$other"' EXIT
until find_newest && ((step > before)); do sleep 0.1; done
# A run that is stopped still uses the folder, but removes no checkpoint while the next run loads it.
kill -STOP "$other"
refused "another run saves to it" "$step"
# Kills the other run: what it leaves behind must not keep a run from going on.
kill -KILL "$other"
wait "$other" 2>/dev/null || true
trap - EXIT
find_newest
goes_on "$step"
echo "the disk refused, and nothing was lost"
