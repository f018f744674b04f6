"""conda.py TREE CUDA_HEADERS UTHASH_H FOLDER - builds the conda package of TREE with rattler-build, and runs its tests.

The channel is FOLDER/channel, with a package for each name that the recipe needs: of those, the compiler's says how to
compile fast, and the one of CUDA has this machine's headers. So the recipe is proved, its script and its tests,
but not that conda-forge has these names.
"""

import hashlib
import pathlib
import platform
import re
import sys
import tarfile

from rattler_build import PlatformConfig, RenderConfig, Stage0Recipe, ToolConfiguration, VariantConfig

tree, cuda, uthash, folder = (pathlib.Path(each).resolve() for each in sys.argv[1:])
channel = folder / "channel"
PLATFORM = {"x86_64": "linux-64", "aarch64": "linux-aarch64"}[platform.machine()]
TARGET = {"x86_64": "x86_64-linux", "aarch64": "sbsa-linux"}[platform.machine()]
VARIANTS = VariantConfig({"c_compiler": ["gcc"], "c_stdlib": ["sysroot"]})
FAST = 'export CMAKE_ARGS="-DCMAKE_C_FLAGS_RELEASE=-O0"'


def build(recipe, **more):
    return recipe.run_build(variant_config=VARIANTS, channels=[channel.as_uri()], output_dir=channel, **more)


def make_package(spec):
    """An empty package, but for what the compiler and CUDA's bring."""
    name, _, version = spec.partition(" ")
    script = ["mkdir -p $PREFIX/etc/conda/activate.d"]
    if name.startswith("gcc_"):
        script.append(f"echo '{FAST}' >$PREFIX/etc/conda/activate.d/fast.sh")
    if name == "cuda-cudart-dev":
        script.append(f"mkdir -p $PREFIX/targets/{TARGET} && cp -rL {cuda} $PREFIX/targets/{TARGET}/include")
    build(Stage0Recipe.from_dict({
        "package": {"name": name, "version": version.lstrip(">=") or "1"},
        "build": {"script": script},
    }))


def local_recipe():
    """The recipe as it stands, but with the sources of this machine."""
    archive = folder / "uthash.tar.gz"
    with tarfile.open(archive, "w:gz") as tar:
        tar.add(uthash, "uthash-2.3.0/src/uthash.h")
    text = (tree / "scripts/package/conda/recipe.yaml").read_text()
    for old, new in (
        (r"path: \.\./\.\./\.\.$", f"path: {tree}"),
        (r"url: https://\S+$", f"url: {archive.as_uri()}"),
        (r"sha256: \w+$", f"sha256: {hashlib.sha256(archive.read_bytes()).hexdigest()}"),
    ):
        text, count = re.subn(old, new, text, flags=re.M)
        assert count == 1, f"{old}: {count} times in the recipe"
    return Stage0Recipe.from_yaml(text, recipe_dir=folder / "recipe")


recipe = local_recipe()
rendered, = recipe.render(VARIANTS, RenderConfig(platform=PlatformConfig(target_platform=PLATFORM)))
version = re.search(r"^project\(gpushim VERSION (\S+)", (tree / "CMakeLists.txt").read_text(), re.M)[1]
assert rendered.recipe.package.version == version, f"the recipe's version is not {version}"
needs = rendered.recipe.requirements
for spec in {*needs.build, *needs.host}:
    make_package(spec)
result, = build(recipe, tool_config=ToolConfiguration(test_strategy="native"))
print(*result.packages)
