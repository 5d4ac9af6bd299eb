# SPDX-License-Identifier: BSD-3-Clause
import os

from spack_repo.builtin.build_systems.cmake import CMakePackage

from spack.package import *


class Cubist(CMakePackage):
    """Tensor-parallel matrix products, and training of MLPs and transformers, on many ranks: threads, MPI processes or
    GPUs. Headers only."""

    # `git` is the checkout that this file lies in, or any URL of the repository.
    git = "file://" + os.path.abspath(os.path.join(os.path.dirname(__file__), *[".."] * 6))

    license("BSD-3-Clause")

    version("0.4.0", tag="v0.4.0")
    version("main", branch="main")

    variant("mpi", default=True, description="Ranks as MPI processes")
    variant("nccl", default=False, description="Ranks with a GPU each")

    depends_on("cxx", type="build")
    depends_on("cmake@3.24:", type="build")
    depends_on("openblas threads=pthreads", type=("build", "link"))
    depends_on("xtensor@0.24:")
    depends_on("xtensor-blas@0.20:")
    depends_on("random123")
    depends_on("nlohmann-json")
    with when("+mpi"):
        depends_on("mpi")
        depends_on("boost@1.74: +mpi +serialization")
    with when("+nccl"):
        depends_on("cuda@13:")
        depends_on("nccl@2.28:")

    def cmake_args(self):
        off = ["TESTS", "EXAMPLES", "BENCH", "TOOLS", "GPU"]
        return [self.define(f"CUBIST_BUILD_{what}", False) for what in off] + [
            self.define("CUBIST_VERIFY_HEADERS", False),
            self.define("CUBIST_WITH_MPI", "ON" if self.spec.satisfies("+mpi") else "OFF"),
            self.define("CUBIST_WITH_NCCL", "ON" if self.spec.satisfies("+nccl") else "OFF"),
        ]
