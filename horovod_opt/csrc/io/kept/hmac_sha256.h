// HMAC-SHA-256 (FIPS 180-4, RFC 2104): by which two nodes prove to each other that they know the
// job's secret, without sending it.
#pragma once

#include <array>
#include <cstddef>
#include <string>

namespace horovod_opt {
namespace io {

using Digest = std::array<unsigned char, 32>;

Digest Sha256(const std::string& data);
Digest HmacSha256(const std::string& key, const std::string& data);

// In the same time wherever they differ.
bool AreEqual(const Digest& one, const Digest& other);

}  // namespace io
}  // namespace horovod_opt
