// hookline checkpoint inspect: what a checkpoint holds.
#include <algorithm>
#include <iostream>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/log.h"
#include "base/text/bytes_text.h"
#include "base/text/count_text.h"
#include "base/text/printable.h"
#include "base/text/time_text.h"
#include "checkpoint/tensor_file.h"
#include "launcher/cli/checkpoints_in.h"
#include "launcher/cli/verb_parser.h"
#include "launcher/cli/verbs.h"
#include "launcher/process/exit_code.h"

namespace hookline {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

std::string shape_text(const TensorRow& row) {
  std::string text = row.dtype + " [";
  for (std::size_t i = 0; i < row.shape.size(); ++i) text += (i ? ", " : "") + std::to_string(row.shape[i]);
  return text + "]";
}

void pad(std::string& text, std::size_t width) { text.resize(std::max(text.size(), width), ' '); }

void print_text(const fs::path& folder, const Manifest& manifest, bool with_tensors) {
  std::cout << printable(folder.string()) << "\n  step   " << manifest.step << "\n  saved  "
            << printable(time_text(manifest.saved_at)) << " by " << count_text(manifest.world_size, "rank")
            << ", hookline " << printable(manifest.version) << "\n  hook   " << printable(manifest.hook)
            << "\n  files  " << manifest.files.size() << ", " << bytes_text(bytes_of(manifest)) << "\n";
  std::size_t width = 0;
  for (const FileRecord& file : manifest.files) width = std::max(width, file.name.size());
  for (const FileRecord& file : manifest.files) {
    const TensorFileHeader header = read_tensor_header(folder / file.name);
    std::string name = file.name, tensors = count_text(header.tensors.size(), "tensor");
    pad(name, width);
    pad(tensors, 14);
    std::cout << "    " << printable(name) << "  " << tensors << bytes_text(file.bytes) << "\n";
    for (const TensorRow& row : header.tensors) {
      if (with_tensors) std::cout << "      " << printable(row.name) << "  " << shape_text(row) << "\n";
    }
  }
}

Json to_json(const fs::path& folder, const Manifest& manifest, bool with_tensors) {
  Json json = {{"folder", folder.string()},
               {"step", manifest.step},
               {"saved_at", manifest.saved_at},
               {"version", manifest.version},
               {"world_size", manifest.world_size},
               {"hook", manifest.hook},
               {"files", Json::array()}};
  for (const FileRecord& file : manifest.files) {
    Json row = {{"name", file.name}, {"bytes", file.bytes}, {"xxh3", file.checksum}};
    if (with_tensors) {
      row["tensors"] = Json::array();
      for (const TensorRow& tensor : read_tensor_header(folder / file.name).tensors)
        row["tensors"].push_back({{"name", tensor.name}, {"dtype", tensor.dtype}, {"shape", tensor.shape}});
    }
    json["files"].push_back(std::move(row));
  }
  return json;
}

/// Names of folders and tensors may hold bytes that are not valid UTF-8.
std::string indented(const Json& json) { return json.dump(2, ' ', false, Json::error_handler_t::replace); }

}  // namespace

int checkpoint_inspect(const Arguments& arguments) {
  bool json = false, tensors = false;
  VerbParser parser("hookline checkpoint inspect DIR [flags]",
                    "Show what a checkpoint holds, or each of those in a run's folder of checkpoints.",
                    "hookline checkpoint inspect checkpoints");
  parser.add_flag("--tensors", tensors, "Name every tensor, with its dtype and shape");
  parser.add_flag("--json", json, "Print JSON");
  if (!parser.parse(arguments)) return kSuccess;
  parser.expect_plain("DIR", 1, 1);

  int code = kSuccess;
  Json all = Json::array();
  for (const fs::path& folder : checkpoints_in(parser.plain()[0])) {
    try {
      const Manifest manifest = read_manifest(folder);
      if (json) {
        all.push_back(to_json(folder, manifest, tensors));
      } else {
        print_text(folder, manifest, tensors);
      }
    } catch (const Error& error) {
      std::cout << std::flush;
      log::error(error.what());
      code = kFailure;
    }
  }
  if (json) std::cout << indented(all) << "\n";
  std::cout << std::flush;
  return code;
}

}  // namespace hookline
