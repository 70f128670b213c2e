"""Checks how folders hang together: none in a circle of includes, no two headers of one name, none with thirty files.

    check_folders.py ROOT

Reads the files that git knows. Tests may include everything and are not looked at, except for their number.
"""

import collections
import pathlib
import re
import subprocess
import sys

MOST_FILES = 29
INCLUDE = re.compile(r'^#include "([^"]+)"', re.MULTILINE)


def circle_in(edges):
    """A list of folders of which each includes the next, and the last the first; empty if there is none."""
    done, path = set(), []

    def visit(folder):
        if folder in path:
            return path[path.index(folder):]
        if folder in done:
            return []
        path.append(folder)
        for other in sorted(edges[folder]):
            if found := visit(other):
                return found
        path.pop()
        done.add(folder)
        return []

    for folder in sorted(edges):
        if found := visit(folder):
            return found
    return []


def problems_of(root):
    names = subprocess.run(["git", "-C", root, "ls-files"], capture_output=True, text=True, check=True).stdout.split("\n")
    files = [pathlib.PurePosixPath(name) for name in names if name and pathlib.Path(root, name).is_file()]
    for folder, count in sorted(collections.Counter(file.parent for file in files).items()):
        if count > MOST_FILES and str(folder) != ".":
            yield f"{folder}/ has {count} files: split it into folders of at most {MOST_FILES}"
    sources = [file for file in files if file.suffix in {".h", ".cc", ".cu", ".cuh"} and file.parts[0] != "tests"]
    of_name = collections.defaultdict(list)
    edges, example = collections.defaultdict(set), {}
    for file in sources:
        if file.suffix == ".h":
            of_name[file.name].append(file)
        for included in INCLUDE.findall(pathlib.Path(root, file).read_text(encoding="utf-8")):
            folder = pathlib.PurePosixPath(included).parent
            if pathlib.Path(root, included).is_file() and folder != file.parent:
                edges[file.parent].add(folder)
                example[file.parent, folder] = f"{file} includes {included}"
    for name, same in sorted(of_name.items()):
        if len(same) > 1:
            yield f"headers of one name: {', '.join(map(str, same))}"
    if circle := circle_in(edges):
        steps = zip(circle, circle[1:] + circle[:1])
        yield "folders that include each other:\n  " + "\n  ".join(example[step] for step in steps)


if __name__ == "__main__":
    found = list(problems_of(sys.argv[1]))
    for problem in found:
        print(f"dev: {problem}", file=sys.stderr)
    sys.exit(1 if found else 0)
