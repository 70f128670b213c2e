"""Packs the source package of hookline-torch: what it is built from, with its pyproject.toml at the root.

usage: pack_source.py WORK_FOLDER OUTPUT_FOLDER     in the root of a checkout; prints the package's path
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys

from scikit_build_core.build import build_sdist

PARTS = (
    "CMakeLists.txt LICENSE cmake torch_versions base hooks config checkpoint shared_memory run_store prediction tracking "
    "parallel cuda libexec python"
).split()
PROJECT = pathlib.Path("python/hookline-torch")


def replaced(text, *pairs):
    for old, new in pairs:
        if text.count(old) != 1:
            sys.exit(f"pack_source.py: {PROJECT}/pyproject.toml has no single '{old}'")
        text = text.replace(old, new)
    return text


def main():
    work, output = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]).resolve()
    shutil.rmtree(work, ignore_errors=True)
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", *PARTS],
        stdout=subprocess.PIPE, check=True, text=True,
    )
    for file in listed.stdout.split("\0"):
        if os.path.isfile(file):
            (work / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(file, work / file)
    header = pathlib.Path(".deps/toml11/toml.hpp")
    if not header.exists():
        sys.exit(f"pack_source.py: {header} is missing: run ./dev setup")
    (work / "cmake" / "toml11").mkdir()
    shutil.copy2(header, work / "cmake" / "toml11")
    for each in ("README.md", "of_this_torch.py"):
        shutil.copy2(PROJECT / each, work / each)
    version = re.search(r"project\(hookline VERSION ([0-9.]+)", (work / "CMakeLists.txt").read_text("utf-8"))[1]
    # The source package's version leaves out torch's: the torch of a later environment decides what the wheel is for.
    text = replaced(
        (PROJECT / "pyproject.toml").read_text("utf-8"),
        ('cmake.source-dir = "../.."\n', ""),
        ('build-dir = "../../build-wheel/torch"\n', 'build-dir = "build"\n'),
        ('dynamic = ["version", "dependencies"]\n', f'version = "{version}"\ndynamic = ["dependencies"]\n'),
        ('[tool.scikit-build.metadata.version]\nprovider = "of_this_torch"\nprovider-path = "."\n\n', ""),
    )
    (work / "pyproject.toml").write_text(text, "utf-8")
    os.chdir(work)
    print(output / build_sdist(str(output)))


if __name__ == "__main__":
    main()
