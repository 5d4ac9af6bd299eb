# Functions that the scripts in this folder share; to be sourced, not run.

cd "$(dirname "${BASH_SOURCE[0]}")/.."

say() { printf '\n== %s\n' "$*"; }

# OpenBLAS's pthread build, not libopenblas-dev, which may install any build. It also provides LAPACK.
packages=(
  g++ cmake ninja-build
  libopenblas-pthread-dev libxtensor-dev libxtensor-blas-dev librandom123-dev
  libopenmpi-dev openmpi-bin libboost-mpi-dev libscalapack-openmpi-dev
  catch2 libcli11-dev nlohmann-json3-dev
)
course_packages=(g++ libopenblas-pthread-dev libxtensor-dev libxtensor-blas-dev librandom123-dev nlohmann-json3-dev python3)
test_packages=(clang lld)  # compile and link the tests in half the time of g++ and ld
sanitizer_packages=(libclang-rt-dev)
format_packages=(clang-format)
docs_packages=(doxygen doxygen-awesome-css mkdocs mkdocs-material)
# Without these, tests on several hosts, of charts, and of NumPy files are skipped.
optional_packages=(iproute2 python3-matplotlib python3-numpy)

# install_missing PACKAGE...: installs packages with apt where there is apt. Elsewhere it prints their names, and CMake
# checks what is installed.
install_missing() {
  if ! command -v apt-get >/dev/null || ! command -v dpkg-query >/dev/null; then
    say "Not Debian or Ubuntu: make sure you have the equivalents of: $*"
    return
  fi

  local package missing=() native
  native="$(dpkg --print-architecture)"
  for package in "$@"; do
    # A package may be there for another architecture, too (scripts/test-aarch64).
    if ! dpkg-query -W -f='${Architecture} ${db:Status-Status}\n' "$package" 2>/dev/null |
      grep -qxE "(all|$native) installed"; then
      missing+=("$package")
    fi
  done
  [[ ${#missing[@]} -gt 0 ]] || return 0

  local as_root=()
  if [[ $EUID -ne 0 ]]; then
    if ! command -v sudo >/dev/null; then
      echo "Missing: ${missing[*]}. Ask an administrator to run: apt-get install ${missing[*]}" >&2
      exit 1
    fi
    as_root=(sudo)
  fi
  say "Installing ${missing[*]}"
  "${as_root[@]}" apt-get update -qq
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get install -y -qq --no-install-recommends "${missing[@]}"
}

use_ccache() {
  if command -v ccache >/dev/null; then
    export CMAKE_CXX_COMPILER_LAUNCHER="${CMAKE_CXX_COMPILER_LAUNCHER-ccache}"
    export CCACHE_SLOPPINESS="${CCACHE_SLOPPINESS-pch_defines,time_macros}"  # else ccache stores nothing that uses precompiled headers
  fi
}

# choose_openblas_kernels: an OpenBLAS older than the processor runs its oldest kernels, at a fifth of the speed. If the
# processor has the instructions for the SkylakeX kernels, this selects them, unless OPENBLAS_CORETYPE is already set.
choose_openblas_kernels() {
  [[ -z "${OPENBLAS_CORETYPE:-}" ]] || return 0
  local flag
  for flag in avx512f avx512cd avx512bw avx512dq avx512vl; do
    grep -qsw "$flag" /proc/cpuinfo || return 0
  done

  local probe=build/openblas_corename
  if [[ ! -x $probe || scripts/openblas_corename.c -nt $probe ]]; then
    mkdir -p build
    cc -o "$probe" scripts/openblas_corename.c -lopenblas 2>/dev/null || return 0
  fi
  case "$("$probe" 2>/dev/null)" in
    Prescott | Core2 | Nehalem | Sandybridge | Barcelona) export OPENBLAS_CORETYPE=SkylakeX ;;
  esac
}

# configure PRESET: runs CMake for a preset, with ccache if it is installed, and with g++ if clang++ is missing.
configure() {
  local options=()
  if [[ $1 == quick || $1 == programs ]] && ! command -v clang++ >/dev/null; then
    options=(-DCMAKE_CXX_COMPILER=g++)
  fi
  use_ccache
  say "Configuring $1"
  cmake --preset "$1" "${options[@]}"
}
