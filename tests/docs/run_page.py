#!/usr/bin/env python3
"""Runs what a page of the documentation shows, from top to bottom, in an empty folder: shell blocks are run, configs are validated,
and models are trained with its function hooks.

usage: run_page.py ROOT PAGE BUILD PYTHON

BUILD: the build folder, whose bin/ has hookline, tests/docs/ the pages' programs, and python/ the package hookline_torch. PYTHON: the
environment of a Python with torch. A page that needs what is not there is skipped, with exit code 77. A block that fails is shown with what it printed, by
page and line. Every block's output is printed.
"""

import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile

import blocks

SECONDS = 120  # for one block


def python_folders(page, root, build, python):
    """What a page that needs Python's torch puts onto PATH and PYTHONPATH."""
    if not page.python:
        return [], []
    programs, package = python / "bin", build / "python" / "hookline_torch"
    for needed in (programs / "python3", package):
        if not needed.exists():
            print(f"SKIP: no {needed}, which this page needs")
            sys.exit(77)
    return [programs.absolute()], [package.parent, root.resolve() / "python" / "hookline" / "src"]


def environment(build, home, python):
    """A user's, without settings of their own."""
    programs, packages = python
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("HOOKLINE_", "MLFLOW_", "XDG_"))}
    path = ":".join(map(str, [build / "bin", *programs, os.environ["PATH"]]))
    if packages:
        kept["PYTHONPATH"] = ":".join(map(str, packages))
    return {**kept, "PATH": path, "HOME": str(home), "OMP_NUM_THREADS": "1", "NO_COLOR": "1"}


def run(page, block, command, folder, build, python):
    print(f"{page.path}:{block.line}: {command if isinstance(command, str) else ' '.join(map(str, command))}", flush=True)
    started = subprocess.Popen(
        command if isinstance(command, list) else ["bash", "-eu", "-o", "pipefail", "-c", command],
        cwd=folder, env=environment(build, folder, python), stdin=subprocess.DEVNULL, start_new_session=True,
    )
    try:
        code = started.wait(SECONDS)
    except subprocess.TimeoutExpired:
        os.killpg(started.pid, signal.SIGTERM)
        started.wait()
        blocks.fail(page.path, block.line, f"this block did not end within {SECONDS} seconds")
    if code != 0:
        blocks.fail(page.path, block.line, f"exit code {code}")


def check_toml(page, block, folder, build, python):
    """Writes the block to the file that it names, which stays for later blocks, or to a temporary one; validates it."""
    name = block.marks.get("file", f"line_{block.line}.toml")
    (folder / name).write_text(block.code, encoding="utf-8")
    if "sweep" in block.marks:
        run(page, block, ["hookline", "sweep", "--dry-run", name], folder, build, python)
    else:
        program = ["--program", "build/train"] if "hook of the program" in block.marks else []
        run(page, block, ["hookline", "config", "validate", *program, name], folder, build, python)
    if "file" not in block.marks:
        (folder / name).unlink()


def put_program(page, root, folder, build):
    """The page's own program, or that of the page that it names, as build/train."""
    name = page.name
    if page.program:
        name = next((other.name for other in blocks.read_pages(root) if other.path.stem == page.program), page.program)
    program = build / "tests" / "docs" / name
    if page.program and not program.exists():
        sys.exit(f"{page.path}: error: there is no program of a page '{page.program}'")
    if program.exists():
        (folder / "build").mkdir()
        (folder / "build" / "train").symlink_to(program)


def main():
    root, path, build, python = (pathlib.Path(each) for each in sys.argv[1:])
    page, build = blocks.read_page(root, path), build.resolve()
    python = python_folders(page, root, build, python)
    counts = {"run": 0, "validated": 0, "written": 0, "not run": 0}
    with tempfile.TemporaryDirectory(prefix="hookline-docs-") as name:
        folder = pathlib.Path(name)
        put_program(page, root, folder, build)
        for block in page.blocks:
            if not blocks.is_tested(block):
                print(f"{page.path}:{block.line}: not run: {block.marks['not run']}")
                counts["not run"] += 1
            elif block.language == "toml":
                check_toml(page, block, folder, build, python)
                counts["validated"] += 1
            elif block.language == "sh":
                if re.search(r"^\$ ", block.code, re.M):
                    blocks.fail(page.path, block.line, "a shell block has commands only; with output it is a console block")
                run(page, block, block.code, folder, build, python)
                counts["run"] += 1
            elif "function hook" in block.marks:
                hooks = str(build / "tests" / "docs" / "function_hooks")
                run(page, block, ["hookline", "launch", "--processes-per-node", "2", hooks, page.name_of(block)], folder, build, python)
                counts["run"] += 1
            elif "file" in block.marks:
                (folder / block.marks["file"]).parent.mkdir(parents=True, exist_ok=True)
                (folder / block.marks["file"]).write_text(block.code, encoding="utf-8")
                counts["written"] += 1
    print(", ".join(f"{count} {what}" for what, count in counts.items()))


main()
