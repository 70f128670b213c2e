"""Checks what ./dev says to arguments that it can't take.

    check_dev.py DEV
"""

import os
import subprocess
import sys

ANY = {"HOOKLINE_TORCH": ""}
CASES = [
    (["--torch", "2.13", "test"], ANY, "--torch takes a version, such as 2.11.0, not '2.13'"),
    (["--torch"], ANY, "--torch takes a version, such as 2.11.0, not ''"),
    (["--torch=2.13.0", "lint"], ANY, "--torch is for setup, build, demo, install, test, package and bench, not for 'lint'"),
    (
        ["--torch", "2.13.0", "build"],
        {"HOOKLINE_TORCH": "/opt/torch"},
        "--torch and HOOKLINE_TORCH both say which torch to build with: leave one out",
    ),
    (["install"], ANY, "install takes the folder to install into, such as /opt/hookline"),
    (["package", "now"], ANY, "package takes --try or nothing, not 'now'"),
    (
        ["package"],
        {"HOOKLINE_TORCH": "/opt/torch"},
        "package builds for a version of torch: name it with --torch, and leave HOOKLINE_TORCH out",
    ),
    (["test-matrix", "2.13"], ANY, "torch_versions/tested.txt has no '2.13': it has 2.11.0 2.12.1 2.13.0 2.14.1 2.15.0"),
]


def main():
    (dev,) = sys.argv[1:]
    faults = []
    for arguments, variables, message in CASES:
        run = subprocess.run([dev, *arguments], env={**os.environ, **variables}, capture_output=True, text=True, check=False)
        if (run.returncode, run.stderr) != (2, f"dev: {message}\n"):
            faults.append(f"./dev {' '.join(arguments)}: exit code {run.returncode}, {run.stderr!r} instead of {message!r}")
    if faults:
        sys.exit("\n".join(faults))


if __name__ == "__main__":
    main()
