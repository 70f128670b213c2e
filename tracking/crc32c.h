// The checksum of TensorFlow's record files: CRC-32C, reflected, of the polynomial 0x1EDC6F41 (RFC 3720,
// section 12.1).
#pragma once

#include <cstdint>
#include <string_view>

namespace hookline {

std::uint32_t crc32c(std::string_view bytes);

}  // namespace hookline
