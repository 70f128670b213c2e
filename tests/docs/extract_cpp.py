#!/usr/bin/env python3
"""Writes the C++ blocks of the documentation as sources: a program each for those that have a main, one program for all function
hooks, and one file with all others.

usage: extract_cpp.py ROOT FOLDER

Prints the sources, which it leaves alone if they are as they were: programs as NAME.cc, function_hooks.cc, and pieces.cc.
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
# Each element of the weight's gradient is r + 1 on rank r here, so the average of two ranks is 1.5, which half precision holds
# exactly. The second step is the first with the Reducer's final buckets.
FUNCTION_HOOK = """
namespace %(name)s {
void run(hookline::Accelerator& accelerator) {
  torch::nn::Linear net(2, 1);
  torch::optim::SGD sgd(net->parameters(), 0.1);
  auto [model, optimizer] = accelerator.prepare(net, sgd);
  {
#line %(line)d "%(page)s"
%(code)s  }
  for (int step = 0; step < 2; ++step) {
    optimizer.zero_grad();
    accelerator.backward(model->forward(torch::full({1, 2}, accelerator.rank() + 1.0, torch::kFloat)).sum());
    if (!net->weight.grad().eq(1.5).all().item<bool>()) throw std::runtime_error("the hook does not average");
    optimizer.step();
  }
  accelerator.end_training();
}
}
"""
FUNCTION_HOOKS_MAIN = """
int main(int, char** arguments) {
  const std::map<std::string, void (*)(hookline::Accelerator&)> hooks = {%s};
  auto accelerator = hookline::Accelerator::from_env();
  hooks.at(arguments[1])(accelerator);
}
"""


def write_if_changed(path, text):
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")
    print(path)


def piece(root, page, block):
    """A block that is not a program, within a namespace, and the lines of its #include directives."""
    includes = re.findall(r"^#include .*$", block.code, re.M)
    facts = {"name": page.name_of(block), "line": block.line, "page": root / page.path}
    facts["code"] = re.sub(r"^#include .*$", "", block.code, flags=re.M)
    if includes or "file scope" in block.marks:
        return includes, '\nnamespace %(name)s {\n#line %(line)d "%(page)s"\n%(code)s}\n' % facts
    if "function hook" in block.marks:
        return [], FUNCTION_HOOK % facts
    is_fresh = "fresh" in block.marks
    return [], FRAGMENT % {**facts, "more": "" if is_fresh else MORE, "before": "" if is_fresh else BEFORE}


def main():
    root, folder = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    folder.mkdir(parents=True, exist_ok=True)
    all_includes, pieces, hooks, names = [], [], [], []
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
            if "function hook" in block.marks:
                hooks.append(text)
                names.append(page.name_of(block))
            else:
                pieces.append(text)
    table = ", ".join(f'{{"{name}", {name}::run}}' for name in names)
    write_if_changed(folder / "function_hooks.cc", HEAD + "#include <stdexcept>\n" + "".join(hooks) + FUNCTION_HOOKS_MAIN % table)
    write_if_changed(folder / "pieces.cc", HEAD + "\n".join(dict.fromkeys(all_includes)) + POINTS + "".join(pieces))


main()
