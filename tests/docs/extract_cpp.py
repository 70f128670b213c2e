#!/usr/bin/env python3
"""Writes the C++ blocks of the documentation as sources: a program each for those that have a main, and one file with all others.

usage: extract_cpp.py ROOT FOLDER

Prints the sources, which it leaves alone if they are as they were: programs as NAME.cc, and pieces.cc.
"""

import pathlib
import re
import sys

import blocks

HEAD = """// A sample may declare what the text around it has, and what only the text below it uses.
#pragma GCC diagnostic ignored "-Wshadow"
#pragma GCC diagnostic ignored "-Wunused"
#include <hookline/hookline.h>
#include <torch/torch.h>

#include <iostream>
#include <map>
#include <string>
"""
POINTS = """
struct Points : torch::data::datasets::Dataset<Points> {
  torch::data::Example<> get(size_t) override { return {torch::zeros(2), torch::zeros(1)}; }
  std::optional<size_t> size() const override { return 1; }
};
"""
FRAGMENT = """
namespace %(name)s {
[[maybe_unused]] void run(hookline::Accelerator& accelerator%(more)s) {
%(before)s  {
#line %(line)d "%(page)s"
%(code)s  }
}
}
"""
MORE = ", torch::nn::Sequential net, torch::optim::SGD sgd"
BEFORE = """  [[maybe_unused]] auto [model, optimizer, loader] = accelerator.prepare(net, sgd, hookline::data_loader(Points(), {.batch_size = 32}));
  [[maybe_unused]] torch::Tensor loss;
"""


def write_if_changed(path, text):
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")
    print(path)


def piece(root, page, block):
    """A block that is no program, within a namespace, and the lines of its #include directives."""
    includes = re.findall(r"^#include .*$", block.code, re.M)
    facts = {"name": f"{page.name}_{block.line}", "line": block.line, "page": root / page.path}
    facts["code"] = re.sub(r"^#include .*$", "", block.code, flags=re.M)
    if includes or "file scope" in block.marks:
        return includes, '\nnamespace %(name)s {\n#line %(line)d "%(page)s"\n%(code)s}\n' % facts
    is_fresh = "fresh" in block.marks
    return [], FRAGMENT % {**facts, "more": "" if is_fresh else MORE, "before": "" if is_fresh else BEFORE}


def main():
    root, folder = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    folder.mkdir(parents=True, exist_ok=True)
    all_includes, pieces = [], []
    for page in blocks.read_pages(root):
        programs = [block for block in page.blocks if blocks.is_program(block) and blocks.is_tested(block)]
        if len(programs) > 1:
            blocks.fail(page.path, programs[1].line, "a second program on one page, of which only one can be build/train")
        for block in filter(blocks.is_tested, page.blocks):
            if block.language != "cpp":
                continue
            if blocks.is_program(block):
                write_if_changed(folder / f"{page.name}.cc", f'#line {block.line} "{root / page.path}"\n{block.code}')
                continue
            includes, text = piece(root, page, block)
            all_includes += includes
            pieces.append(text)
    write_if_changed(folder / "pieces.cc", HEAD + "\n".join(dict.fromkeys(all_includes)) + POINTS + "".join(pieces))


main()
