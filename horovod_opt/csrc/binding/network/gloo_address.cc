#if HAVE_GLOO
#include <gloo/context.h>
#include <gloo/transport/pair.h>

#include <stdexcept>
#include <string>

#include "horovod_opt/csrc/binding/network/group_transport.h"

namespace horovod_opt {

// Gloo's text of an address of this rank: "[10.0.0.1]:40123$7".
std::string GlooAddress(const gloo::Context& gloo) {
  for (int rank = 0; rank < gloo.size; ++rank) {
    if (rank == gloo.rank) continue;
    const auto& pair = const_cast<gloo::Context&>(gloo).getPair(rank);
    if (pair == nullptr) continue;
    const std::string text = pair->address().str();
    const std::size_t end = text.find(']');
    if (text.front() == '[' && end != std::string::npos) return text.substr(1, end - 1);
  }
  throw std::runtime_error("Gloo does not tell the address of this rank");
}

}  // namespace horovod_opt
#endif
