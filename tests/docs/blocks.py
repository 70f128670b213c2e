"""The code blocks of the pages in docs/, README.md, CONTRIBUTING.md and examples/*/README.md, with what the comments above
them say:

  <!-- file: NAME -->             it is written to this file
  <!-- not run: REASON -->        it is neither run nor validated nor compiled
  <!-- sweep -->                  the TOML is a sweep file
  <!-- hook of the program -->    the config names a hook that build/train registers
  <!-- fresh -->                  the C++ has no model, optimizer and loader around it
  <!-- file scope -->             the C++ stands outside of functions
  <!-- function hook -->          the C++ registers a function as the hook of `model`, with which two ranks then train

Comments of the whole page: <!-- program: PAGE --> makes the program of that page its build/train; with <!-- python: torch -->
its python3 is the one with torch and hookline's Python packages.
"""

import dataclasses
import pathlib
import re
import sys

FENCE = re.compile(r"^( *)```(\w*)[^`]*$")
MARK = re.compile(r"<!-- (?:(file|not run|program|python): (.+?)|(sweep|hook of the program|fresh|file scope|function hook)) -->")
CONTAINER = re.compile(r"(?:[-*+]|\d+[.)]) +|(?:!!!|\?\?\?\+?) ")  # a list item or an admonition, at its beginning
LANGUAGES = {"toml", "sh", "cpp", "python", "console", "text", "yaml", "json", "cmake"}


@dataclasses.dataclass
class Block:
    language: str
    line: int  # of its first line of code, from 1
    code: str
    marks: dict = dataclasses.field(default_factory=dict)  # "file": a name; "not run": a reason; the others: True


@dataclasses.dataclass
class Page:
    path: pathlib.Path
    blocks: list
    program: str = ""  # the page whose program is at build/train
    python: str = ""  # "torch": it needs a Python with torch

    @property
    def name(self):
        return "_".join(self.path.with_suffix("").parts)

    def name_of(self, block):
        return f"{self.name}_{block.line}"


class Indentation:
    """Finds the lines outside of fences that Markdown shows as code because they are indented."""

    def __init__(self):
        self.contents = []  # columns at which the contents of the open list items and admonitions begin
        self.in_paragraph = False

    def is_code(self, line):
        """To be called with each line outside of fences, in order."""
        line = line.expandtabs(4).rstrip()
        text = line.lstrip(" ")
        if not text:
            self.in_paragraph = False
            return False
        indent = len(line) - len(text)
        container = CONTAINER.match(text)
        if container or not self.in_paragraph:
            while self.contents and indent < self.contents[-1]:
                self.contents.pop()
        if not self.in_paragraph and indent >= 4 + (self.contents[-1] if self.contents else 0):
            return True
        if container:
            self.contents.append(indent + (4 if text[0] in "!?" else len(container[0])))
        self.in_paragraph = not text.startswith(("#", "<!--", "```"))
        return False


def fail(page, line, what):
    sys.exit(f"{page}:{line}: error: {what}")


def read_page(root, path):
    """`path`: relative to `root`. Exits with a message where a page can't be read."""
    page = Page(path, [])
    block, indent, marks, indentation = None, "", {}, Indentation()
    for number, line in enumerate((root / path).read_text(encoding="utf-8").split("\n"), 1):
        fence = FENCE.match(line)
        if block is not None:
            if fence and not fence[2]:
                page.blocks.append(block)
                block = None
            else:
                block.code += line.removeprefix(indent) + "\n"
            continue
        if indentation.is_code(line):
            fail(path, number, "an indented code block, which no test reads: put it between ``` lines, with its language")
        if fence:
            indent = fence[1]
            if fence[2] not in LANGUAGES:
                fail(path, number, f"a block of {fence[2] or 'no language'}; it must be one of {', '.join(sorted(LANGUAGES))}")
            block, marks = Block(fence[2], number + 1, "", marks), {}
            continue
        found = MARK.fullmatch(line.strip())
        if found and found[1] == "program":
            page.program = found[2]
        elif found and found[1] == "python":
            page.python = found[2]
        elif found:
            marks[found[1] or found[3]] = found[2] or True
        elif line.strip():
            if marks:
                fail(path, number, "a comment about a code block, but no block below it")
            if line.strip().startswith("<!--") and not line.startswith("<!-- generated "):
                fail(path, number, "a comment that means nothing to the tests of the documentation")
    if block is not None:
        fail(path, block.line, "a code block that does not end")
    return page


def read_pages(root):
    paths = [pathlib.Path("README.md"), pathlib.Path("CONTRIBUTING.md")]
    paths += sorted(path.relative_to(root) for path in (root / "docs").rglob("*.md"))
    paths += sorted(path.relative_to(root) for path in root.glob("examples/*/README.md"))
    return [read_page(root, path) for path in paths]


def is_program(block):
    return block.language == "cpp" and "int main(" in block.code


def is_tested(block):
    return "not run" not in block.marks
