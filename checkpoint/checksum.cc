#include "checkpoint/checksum.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <cstdio>
#include <vector>

#include "base/error.h"
#include "base/regular_file.h"

namespace hookline {
namespace {

std::string hex(XXH64_hash_t hash) {
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(hash));
  return text;
}

}  // namespace

struct Checksum::State {
  XXH3_state_t hash;
};

Checksum::Checksum() : state_(std::make_unique<State>()) { XXH3_64bits_reset(&state_->hash); }
Checksum::~Checksum() = default;

void Checksum::add(const void* data, std::size_t bytes) { XXH3_64bits_update(&state_->hash, data, bytes); }

std::string Checksum::text() const { return hex(XXH3_64bits_digest(&state_->hash)); }

std::string checksum_of(const void* data, std::size_t bytes) { return hex(XXH3_64bits(data, bytes)); }

std::string checksum_of_file(const std::filesystem::path& file) {
  InputFile stream(file);
  if (!stream) throw Error("'" + file.string() + "' can't be read: " + stream.why());
  Checksum checksum;
  std::vector<char> block(1 << 20);
  while (stream) {
    stream.read(block.data(), static_cast<std::streamsize>(block.size()));
    checksum.add(block.data(), static_cast<std::size_t>(stream.gcount()));
  }
  if (!stream.eof()) throw Error("'" + file.string() + "' can't be read");
  return checksum.text();
}

}  // namespace hookline
