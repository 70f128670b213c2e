"""hookline's communication hooks for PyTorch's DistributedDataParallel.

Import ``hookline`` and use its names; this package is where they come from.
"""

import atexit
import os
import sys

import torch

from hookline_torch import _build

if torch.__version__.split("+")[0] != _build.TORCH:
    raise ImportError(
        f"hookline-torch {_build.VERSION} was built with torch {_build.TORCH}, and this is torch {torch.__version__}, "
        "whose C++ interface may differ: install torch=="
        f"{_build.TORCH}, or install hookline-torch from its source package: pip install "
        "--force-reinstall --no-deps --no-build-isolation --no-cache-dir hookline_torch-VERSION.tar.gz"
    )

# Plug-ins take hookline's functions from the process, so the library's symbols must be global.
_flags = sys.getdlopenflags()
sys.setdlopenflags(_flags | os.RTLD_GLOBAL)
try:
    from hookline_torch._C import Error
finally:
    sys.setdlopenflags(_flags)

from hookline_torch._ddp import Hook  # noqa: E402
from hookline_torch._exit import finish_gloo  # noqa: E402
from hookline_torch._fsdp import ShardedHook  # noqa: E402
from hookline_torch._rank import log, step  # noqa: E402
from hookline_torch._register import apply, hooks, register  # noqa: E402

__all__ = ["Error", "Hook", "ShardedHook", "apply", "hooks", "log", "register", "step"]
__version__ = _build.VERSION

atexit.register(finish_gloo)
