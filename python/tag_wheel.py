"""Gives the wheel of the launcher the platform tag that its programs need: manylinux with the newest GLIBC version that they use.

usage: tag_wheel.py WHEEL          prints the path of the tagged wheel, and removes the other one
"""

import os
import re
import subprocess
import sys
import tempfile
import zipfile

# What a system must have itself (PEP 600 allows these).
SYSTEM = {
    "libc.so.6", "libm.so.6", "libdl.so.2", "librt.so.1", "libpthread.so.0", "libresolv.so.2", "libutil.so.1",
    "ld-linux-x86-64.so.2", "libgcc_s.so.1", "libstdc++.so.6",
}  # fmt: skip


def programs_in(folder):
    for parent, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(parent, name)
            with open(path, "rb") as file:
                if file.read(4) == b"\x7fELF":
                    yield path


def main(wheel):
    newest, needed, bundled = (0, 0), set(), set()
    with tempfile.TemporaryDirectory() as folder:
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(folder)
        for program in programs_in(folder):
            bundled.add(os.path.basename(program))
            text = subprocess.run(["objdump", "-p", program], check=True, capture_output=True, text=True).stdout
            needed.update(re.findall(r"NEEDED +(\S+)", text))
            for version in re.findall(r"GLIBC_(\d+)\.(\d+)", text):
                newest = max(newest, tuple(map(int, version)))
    missing = needed - SYSTEM - bundled
    if missing:
        sys.exit(f"tag_wheel.py: {wheel} has programs that need {', '.join(sorted(missing))}, which it does not contain")
    tag = f"manylinux_{newest[0]}_{newest[1]}_{os.uname().machine}"
    tagged = subprocess.run(
        [sys.executable, "-m", "wheel", "tags", "--remove", "--platform-tag", tag, wheel],
        check=True, capture_output=True, text=True,
    ).stdout.strip()  # fmt: skip
    print(os.path.join(os.path.dirname(wheel), tagged.splitlines()[-1]))


if __name__ == "__main__":
    main(sys.argv[1])
