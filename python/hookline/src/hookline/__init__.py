"""hookline: launches distributed training, and brings communication hooks to PyTorch's DistributedDataParallel
and to its sharded models.

This package has the launcher, the program ``hookline``. The hooks need the package ``hookline-torch``, which is built
for one version of torch:

    model = DistributedDataParallel(net)
    hookline.register(model, "power_sgd", wrapper="fp16", matrix_approximation_rank=2)
    hookline.apply(model)                  # or what [ddp] of the run's config names
"""

import importlib
import importlib.metadata
import os
import sys
import sysconfig

__all__ = ["program"]

_OF_TORCH = ("Error", "Hook", "ShardedHook", "apply", "hooks", "log", "register", "step")


def program() -> str:
    """The path of the launcher that this package has installed.

    Raises FileNotFoundError if it is gone.
    """
    for scheme in (sysconfig.get_default_scheme(), sysconfig.get_preferred_scheme("user")):
        path = os.path.join(sysconfig.get_path("scripts", scheme), "hookline")
        if os.path.isfile(path):
            return path
    # Installed with --target or --prefix.
    try:
        files = importlib.metadata.files("hookline") or ()
    except importlib.metadata.PackageNotFoundError:
        files = ()
    for record in files:
        if record.name == "hookline" and record.parent.name == "bin":
            return str(record.locate().resolve())
    raise FileNotFoundError(
        f"the program hookline is not installed beside {sys.executable}: "
        "install its wheel again"
    )


def __getattr__(name: str):
    if name == "__version__":
        return importlib.metadata.version("hookline")
    if name not in _OF_TORCH:
        raise AttributeError(f"module 'hookline' has no attribute '{name}'")
    try:
        return getattr(importlib.import_module("hookline_torch"), name)
    except ModuleNotFoundError as error:
        if error.name not in ("hookline_torch", "torch"):
            raise
        raise ImportError(
            f"hookline.{name} needs the package hookline-torch, and {error.name} is not installed: install the wheel "
            "that './dev package' builds in a checkout of hookline"
        ) from None
