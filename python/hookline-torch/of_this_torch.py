"""Metadata of hookline-torch that depends on the torch which it is built with, for scikit-build-core."""

import importlib.metadata
import os
import pathlib
import re


def _version() -> str:
    # In the source package, and in a checkout.
    for source in (pathlib.Path("CMakeLists.txt"), pathlib.Path("../../CMakeLists.txt")):
        if source.exists():
            return re.search(r"project\(hookline VERSION ([0-9.]+)", source.read_text(encoding="utf-8"))[1]
    raise RuntimeError("hookline-torch is built in its source package or in a checkout of hookline: neither is here")


def _torch() -> str:
    named = os.environ.get("HOOKLINE_TORCH")
    if not named:
        try:
            return importlib.metadata.version("torch").split("+")[0]
        except importlib.metadata.PackageNotFoundError:
            raise RuntimeError(
                "torch is not installed in this Python environment: install the version that hookline-torch is to be built for"
            ) from None
    for found in (pathlib.Path(named), pathlib.Path(named, ".."), *pathlib.Path(named).glob("lib/python3*/site-packages")):
        for each in importlib.metadata.distributions(name="torch", path=[str(found)]):
            return each.version.split("+")[0]
    raise RuntimeError(f"HOOKLINE_TORCH is '{named}', in which Python's torch is not installed")


def dynamic_metadata(field: str, settings: dict) -> str | list[str]:
    if field == "version":
        return f"{_version()}+torch{_torch()}"
    return [f"hookline=={_version()}", f"torch=={_torch()}"]
