// SPDX-License-Identifier: BSD-3-Clause

// OpenBLAS's functions for its threads, in a static library. A linker takes only those that strong
// references ask for.

extern "C" {
int openblas_threads_of_test = 4;
void openblas_set_num_threads(int threads) { openblas_threads_of_test = threads; }
int openblas_get_num_threads() { return openblas_threads_of_test; }
}
