"""conan create packaging/conan: the package cubist from the checkout that this file lies in."""
import os
import re

from conan import ConanFile
from conan.tools.cmake import CMake, CMakeDeps, CMakeToolchain
from conan.tools.files import copy, load


class Cubist(ConanFile):
    name = "cubist"
    description = "Tensor-parallel matrix products and training on many ranks"
    license = "BSD-3-Clause"
    package_type = "header-library"
    settings = "os", "compiler", "build_type", "arch"
    options = {"with_mpi": [True, False]}
    default_options = {"with_mpi": False, "openblas/*:use_thread": True}
    no_copy_source = True

    @property
    def _checkout(self):
        return os.path.join(self.recipe_folder, "..", "..")

    def set_version(self):
        header = load(self, os.path.join(self._checkout, "include", "cubist", "version.hpp"))
        self.version = ".".join(re.search(rf"CUBIST_VERSION_{part} (\d+)", header)[1] for part in ("MAJOR", "MINOR", "PATCH"))

    def export_sources(self):
        for pattern in ("CMakeLists.txt", "LICENSE", "cmake/*", "include/*"):
            copy(self, pattern, self._checkout, self.export_sources_folder)

    def requirements(self):
        # Random123, and MPI for cubist::mpi, are those of the system: ConanCenter does not have them.
        for requirement in ("xtensor/0.24.7", "xtensor-blas/0.20.0", "nlohmann_json/3.11.3", "openblas/0.3.24"):
            self.requires(requirement, transitive_headers=True, transitive_libs=True)
        if self.options.with_mpi:
            self.requires("boost/1.83.0", transitive_headers=True, transitive_libs=True, options={"without_mpi": False})

    def generate(self):
        CMakeDeps(self).generate()
        toolchain = CMakeToolchain(self)
        for what in ("TESTS", "EXAMPLES", "BENCH", "TOOLS", "GPU"):
            toolchain.cache_variables[f"CUBIST_BUILD_{what}"] = False
        toolchain.cache_variables["CUBIST_VERIFY_HEADERS"] = False
        toolchain.cache_variables["CUBIST_WITH_NCCL"] = False
        toolchain.cache_variables["CUBIST_WITH_MPI"] = "ON" if self.options.with_mpi else "OFF"
        toolchain.generate()

    def build(self):
        CMake(self).configure()

    def package(self):
        CMake(self).install()
        copy(self, "LICENSE", self.source_folder, os.path.join(self.package_folder, "licenses"))

    def package_id(self):
        self.info.settings.clear()

    def package_info(self):
        # find_package(cubist) reads the package's own files, which say what to link.
        self.cpp_info.bindirs = self.cpp_info.libdirs = []
        self.cpp_info.builddirs = [os.path.join("share", "cmake", "cubist")]
        self.cpp_info.set_property("cmake_find_mode", "none")
