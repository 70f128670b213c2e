#!/usr/bin/env python3
"""Every relative link of the repository's Markdown files leads to a file and a heading that are there, and every
`..._test.cc` that they name is a file. One named without a folder lies in the folder of the test named before it
in its line, or else in the folder given in the heading of its table column.

usage: check_links.py ROOT
"""

import os
import pathlib
import re
import sys

LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
LEFT_OUT = {".git", ".deps", "hookline-runs", "hookline-sweeps"}
MADE = {"api"}  # by ./dev docs


def pages(root):
    for folder, folders, files in os.walk(root):
        folders[:] = [name for name in folders if name not in LEFT_OUT and not name.startswith("build")]
        yield from (pathlib.Path(folder) / name for name in files if name.endswith(".md"))


def without_code(text):
    text = re.sub(r"^( *)```.*?^\1```", "", text, flags=re.M | re.S)
    return re.sub(r"^    .*$", "", text, flags=re.M)


def anchors(page):
    """As GitHub and mkdocs make them."""
    found = set()
    for heading in re.findall(r"^#+ (.*)$", without_code(page.read_text(encoding="utf-8")), re.M):
        text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
        text = re.sub(r"[^\w\- ]", "", text)
        found.add(re.sub(r" ", "-", text.strip()))
        found.add(re.sub(r"[-\s]+", "-", text.strip()))
    return found


def missing_tests(root, text):
    """The tests that `text` names and that are not there."""
    head = None
    for line in text.splitlines():
        folder = re.search(r"test[^|]*\(`(tests/[^`]*)`\)", line)
        if folder or not line.startswith("|"):
            head = folder[1] if folder else None
        place = head
        for name in re.findall(r"`([\w/]+_test\.cc)`", line):
            if "/" in name:
                place = os.path.dirname(name)
            if place and not (root / place / os.path.basename(name)).is_file():
                yield name


def main():
    root = pathlib.Path(sys.argv[1]).resolve()
    broken = []
    count = 0
    for page in pages(root):
        for test in missing_tests(root, page.read_text(encoding="utf-8")):
            broken.append(f"{page.relative_to(root)}: no test '{test}'")
        for link in LINK.findall(re.sub(r"`[^`\n]*`", "", without_code(page.read_text(encoding="utf-8")))):
            if re.match(r"[a-z]+:", link):
                continue
            count += 1
            place, _, anchor = link.partition("#")
            target = (page.parent / place).resolve() if place else page
            if any(part in MADE for part in pathlib.Path(place).parts):
                continue
            if not target.exists():
                broken.append(f"{page.relative_to(root)}: no file '{link}'")
            elif anchor and target.suffix == ".md" and anchor not in anchors(target):
                broken.append(f"{page.relative_to(root)}: no heading '{link}'")
    print("\n".join(broken))
    print(f"{count} links, {len(broken)} broken")
    sys.exit(1 if broken or count == 0 else 0)


main()
