# Functions of the scripts in this folder; sourced, not run.

cd "$(dirname "${BASH_SOURCE[0]}")/.."

say() { printf '\n== %s\n' "$*"; }

# Not libopenblas-dev, which may install any build of OpenBLAS; this one also provides LAPACK.
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
# Without them the tests on several hosts, of charts, and of NumPy files are skipped.
optional_packages=(iproute2 python3-matplotlib python3-numpy)

# install_missing PACKAGE...: installs by apt where it exists; elsewhere prints the names of the packages, and CMake
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
    export CCACHE_SLOPPINESS="${CCACHE_SLOPPINESS-pch_defines,time_macros}"  # else it stores nothing beside precompiled headers
  fi
}

# An OpenBLAS older than the processor runs its oldest kernels, at a fifth of the speed. If the processor has the
# instructions of the SkylakeX kernels, this selects those; a variable that is already set is kept.
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

# configure PRESET
configure() {
  local options=()
  if [[ $1 == quick || $1 == programs ]] && ! command -v clang++ >/dev/null; then
    options=(-DCMAKE_CXX_COMPILER=g++)
  fi
  use_ccache
  say "Configuring $1"
  cmake --preset "$1" "${options[@]}"
}
