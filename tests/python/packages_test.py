"""What the packages contain, and what they say where something is missing. usage: packages_test.py SOURCES BUILD

SOURCES is the folder python/ of the sources, BUILD the build folder.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import unittest
import zipfile

BUILD = sys.argv.pop(2)
SOURCES = sys.argv.pop(1)
LAUNCHER = os.path.join(SOURCES, "hookline", "src")


def run(folder, code, *paths, **variables):
    """Runs `code` with `paths` as PYTHONPATH."""
    return subprocess.run(
        [sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, timeout=120,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths), **variables},
    )  # fmt: skip


def last_line(*arguments, **variables):
    """The last line of what `run` prints on standard error."""
    return run(*arguments, **variables).stderr.rstrip("\n").rpartition("\n")[2]


# One rank's step with a hook; prints what it used.
TRAIN = """\
import os
import sys
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import hookline

dist.init_process_group("gloo", init_method="file://" + os.path.abspath("store"), rank=0, world_size=1)
model = DistributedDataParallel(torch.nn.Linear(3, 2))
hook = hookline.register(model, "power_sgd", wrapper="fp16", start_powerSGD_iter=2)
model(torch.ones(1, 3)).sum().backward()
print(hook.name, hookline.register.__module__, sys.modules["hookline_torch._C"].__file__)
dist.destroy_process_group()
"""


class Packages(unittest.TestCase):
    def setUp(self):
        self.folder = self.enterContext(tempfile.TemporaryDirectory())

    def test_what_the_wheel_installs_is_complete(self):
        installed = os.path.join(self.folder, "installed")
        subprocess.run(
            ["cmake", "--install", BUILD, "--component", "python", "--prefix", installed],
            check=True, capture_output=True, timeout=60,
        )  # fmt: skip
        ended = run(self.folder, TRAIN, installed, LAUNCHER)
        self.assertEqual(ended.returncode, 0, ended.stderr)
        hook, module, library = ended.stdout.rsplit(" ", 2)
        self.assertEqual(hook, "power_sgd(rank=1, start=2) in fp16")
        self.assertEqual(module, "hookline_torch._register")
        self.assertTrue(library.startswith(installed), library)
        self.assertTrue(os.path.exists(os.path.join(installed, "hookline_torch", "py.typed")))

    def test_the_cuda_module_is_found(self):
        library = os.path.join(BUILD, "lib", "libhookline_cuda.so")
        if not os.path.exists(library):
            self.skipTest("built without a CUDA toolkit")
        ended = run(
            self.folder, "from hookline_torch import _C; print(repr(_C.cuda_problem()))", os.path.join(BUILD, "python")
        )
        self.assertEqual(ended.stdout, "''\n", ended.stderr)

    def test_a_launcher_that_is_gone_is_named(self):
        self.assertEqual(
            last_line(self.folder, "import hookline; hookline.program()", LAUNCHER),
            f"FileNotFoundError: the program hookline is not installed beside {sys.executable}: install its wheel again",
        )

    def test_hooks_without_their_package_say_which_one_they_need(self):
        self.assertEqual(
            last_line(self.folder, "import hookline; hookline.register", LAUNCHER),
            "ImportError: hookline.register needs the package hookline-torch, and hookline_torch is not installed: "
            "install the wheel that './dev package' builds in a checkout of hookline",
        )

    def test_another_torch_is_refused_before_the_library_is_loaded(self):
        package = os.path.join(self.folder, "hookline_torch")
        os.mkdir(package)
        shutil.copy(os.path.join(BUILD, "python", "hookline_torch", "__init__.py"), package)
        with open(os.path.join(package, "_build.py"), "w", encoding="utf-8") as file:
            file.write('TORCH = "1.2.3"\nVERSION = "0.9.0"\n')
        import torch

        self.assertEqual(
            last_line(self.folder, "import hookline_torch", self.folder),
            "ImportError: hookline-torch 0.9.0 was built with torch 1.2.3, and this is torch "
            f"{torch.__version__}, whose C++ interface may differ: install torch==1.2.3, or install hookline-torch from "
            "its source package: pip install --force-reinstall --no-deps --no-build-isolation --no-cache-dir "
            "hookline_torch-VERSION.tar.gz",
        )

    def test_metadata_needs_the_sources_and_a_torch(self):
        metadata = os.path.join(SOURCES, "hookline-torch")
        self.assertEqual(
            last_line(self.folder, "import of_this_torch as o; o.dynamic_metadata('version', {})", metadata),
            "RuntimeError: hookline-torch is built in its source package or in a checkout of hookline: neither is here",
        )
        self.assertEqual(
            last_line(
                metadata,
                "import of_this_torch as o; o.dynamic_metadata('version', {})",
                metadata,
                HOOKLINE_TORCH=self.folder,
            ),
            f"RuntimeError: HOOKLINE_TORCH is '{self.folder}', in which Python's torch is not installed",
        )
        self.assertEqual(
            last_line(
                metadata,
                "import sys, of_this_torch as o; sys.path.clear(); o.dynamic_metadata('version', {})",
                metadata,
            ),
            "RuntimeError: torch is not installed in this Python environment: install the version that hookline-torch is to be "
            "built for",
        )

    def test_a_wheel_must_contain_the_libraries_that_its_programs_need(self):
        wheel = os.path.join(self.folder, "hookline-0.9.0-py3-none-linux_x86_64.whl")
        with zipfile.ZipFile(wheel, "w") as archive:
            archive.write(shutil.which("bash"), "hookline-0.9.0.data/scripts/hookline")
        ended = subprocess.run(
            [sys.executable, os.path.join(SOURCES, "tag_wheel.py"), wheel], capture_output=True, text=True, timeout=60
        )
        self.assertEqual(ended.returncode, 1)
        self.assertEqual(
            ended.stderr,
            f"tag_wheel.py: {wheel} has programs that need libtinfo.so.6, which it does not contain\n",
        )


if __name__ == "__main__":
    unittest.main()
