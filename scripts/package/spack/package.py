# Copy to packages/gpushim/ of a Spack repository. Until there is a release, sources come from a folder:
#   spack develop --path=/PATH/OF/gpushim gpushim@0.1.0
# Not built with Spack; tests/packages/run compares versions and options with CMakeLists.txt.

from spack.package import *


class Gpushim(CMakePackage):
    """Allocator, tracker and leak report for unchanged CUDA programs: a library that is preloaded."""

    license("MIT")

    version("0.1.0")

    variant("serve", default=True, description="The command gpushim serve")
    variant("slurm", default=False, description="The plug-in for srun --gpushim")

    depends_on("c", type="build")
    depends_on("cmake@3.25:", type="build")
    depends_on("uthash", type="build")
    depends_on("cuda@11.7:", type="build")  # headers
    depends_on("libmicrohttpd", when="+serve", type=("build", "link", "run"))
    depends_on("slurm", when="+slurm", type=("build", "run"))

    requires("platform=linux")

    def cmake_args(self):
        return [
            self.define("GPUSHIM_SIM", False),
            self.define("GPUSHIM_CXX", False),
            self.define("CUDA_INCLUDE_DIR", self.spec["cuda"].prefix.include),
            self.define("UTHASH_DIR", self.spec["uthash"].prefix.include),
        ]
