// The shapes of the parameters in a model file of torch's, for hookline estimate.
//
//     model_shapes FILE
//
// Prints a JSON list of them. The exit code is 2, with a sentence on standard error, for a file that can't be
// read.
#include <ATen/Parallel.h>
#include <c10/util/Exception.h>
#include <caffe2/serialize/inline_container.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <new>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/text/bytes_text.h"
#include "libexec/estimate/archive_limits.h"
#include "libexec/estimate/pickle.h"
#include "libexec/estimate/script.h"

namespace hookline {
namespace {

using Shapes = std::vector<std::vector<std::int64_t>>;

std::vector<ArchiveRecord> records_of(caffe2::serialize::PyTorchStreamReader& archive) {
  std::vector<ArchiveRecord> records;
  for (const std::string& name : archive.getAllRecords())
    records.push_back({name, archive.getRecordSize(name)});
  return records;
}

std::string text_of(caffe2::serialize::PyTorchStreamReader& archive, const std::string& record) {
  const auto [bytes, size] = archive.getRecord(record);
  return {static_cast<const char*>(bytes.get()), size};
}

Shapes shapes_in(const std::string& file, std::uint64_t file_bytes) {
  // Both kinds are zip archives. TorchScript, which C++'s torch::save writes, too, has a file of constants.
  caffe2::serialize::PyTorchStreamReader archive(file);
  const bool is_script = archive.hasRecord("constants.pkl");
  if (is_script) check_records(records_of(archive), file_bytes);
  // A record may be compressed: a megabyte of a file may become gigabytes of memory.
  if (const std::size_t bytes = archive.getRecordSize("data.pkl"); bytes > kMostPickleBytes)
    throw PickleError("its list of tensors has " + bytes_beyond_text(bytes, kMostPickleBytes) +
                      ", and the most is " + binary_bytes_text(kMostPickleBytes) +
                      ": it is damaged, or not a torch model");
  const std::string list = text_of(archive, "data.pkl");
  const Pickle saved = read_pickle(list);
  if (!is_script) return parameter_shapes(saved);
  // libtorch's own loader would run the code that the file holds, which may do anything.
  return script_parameter_shapes(saved, [&](const std::string& record) {
    return archive.hasRecord(record) ? std::optional(text_of(archive, record)) : std::nullopt;
  });
}

/// Returns the exit code: 2, with a sentence on standard error, if the file can't be read.
int print_shapes_in(const std::string& file) {
  std::uint64_t limit_bytes = 0;
  const auto fail = [](const std::string& why) {
    const std::size_t start = why.find_first_not_of('\n');  // libtorch's parser begins with an empty line
    const std::string line = start == why.npos ? "" : why.substr(start, why.find('\n', start) - start);
    std::fprintf(stderr, "%s\n", line.empty() ? "libtorch does not say why" : line.c_str());
    return 2;
  };
  try {
    at::set_num_threads(1);  // each has a stack, which counts as memory
    const std::uint64_t file_bytes = std::filesystem::file_size(file);
    limit_bytes = limit_memory(file_bytes);
    std::printf("%s\n", nlohmann::json(shapes_in(file, file_bytes)).dump().c_str());
    return 0;
  } catch (const c10::Error& error) {
    const std::string why = error.what_without_backtrace();
    const bool is_of_memory = why.find("allocate memory") != why.npos || why.find("bad_alloc") != why.npos;
    return fail(is_of_memory ? out_of_memory_text(limit_bytes) : why);
  } catch (const std::bad_alloc&) {
    return fail(out_of_memory_text(limit_bytes));
  } catch (const std::exception& error) {
    return fail(error.what());
  }
}

}  // namespace
}  // namespace hookline

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: model_shapes FILE; hookline estimate starts it\n");
    return 2;
  }
  return hookline::print_shapes_in(argv[1]);
}
