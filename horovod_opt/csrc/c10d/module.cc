// The Python module that makes backends: horovod_opt.c10d loads it for the PyTorch that it was
// compiled for.
#include <torch/csrc/utils/pybind.h>

#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "horovod_opt/csrc/c10d/backend.h"
#include "horovod_opt/csrc/core/network/tcp_rendezvous.h"

namespace {

namespace py = pybind11;
using horovod_opt::HvdoptBackend;

// Let go of with Python's lock, wherever that is: the backend may be destroyed without it.
std::shared_ptr<py::object> Held(py::object object) {
  return {new py::object(std::move(object)), [](py::object* held) {
            py::gil_scoped_acquire lock;
            delete held;
          }};
}

c10::intrusive_ptr<c10d::Backend> MakeBackend(c10::intrusive_ptr<c10d::Store> store, int rank,
                                              int size, double timeout_seconds, std::string name,
                                              std::vector<int> global_ranks, py::object below,
                                              py::object address, int most_in_memory,
                                              py::object say) {
  const auto held_below = Held(std::move(below)), held_say = Held(std::move(say));
  const auto held_address = Held(std::move(address));
  const std::chrono::milliseconds timeout(static_cast<std::int64_t>(timeout_seconds * 1000));
  return c10::make_intrusive<HvdoptBackend>(
      std::move(store), rank, size, timeout, std::move(name), std::move(global_ranks),
      [held_below] {
        py::gil_scoped_acquire lock;
        return (*held_below)().cast<c10::intrusive_ptr<c10d::Backend>>();
      },
      HvdoptBackend::Place{[held_address] {
                             py::gil_scoped_acquire lock;
                             return (*held_address)().cast<std::string>();
                           },
                           most_in_memory},
      [held_say](const std::string& line) {
        py::gil_scoped_acquire lock;
        (*held_say)(line);
      });
}

// {kind: (ours, below)}.
std::map<std::string, std::pair<std::int64_t, std::int64_t>> Counts(
    const c10::intrusive_ptr<c10d::Backend>& backend) {
  const auto* ours = dynamic_cast<const HvdoptBackend*>(backend.get());
  if (ours == nullptr) throw py::type_error("no backend of this module");
  std::map<std::string, std::pair<std::int64_t, std::int64_t>> counts;
  for (const auto& [kind, both] : ours->Counts()) counts[kind] = {both[0], both[1]};
  return counts;
}

}  // namespace

PYBIND11_MODULE(_backend, module) {
  module.def("make", &MakeBackend);
  module.def("own_address", &horovod_opt::OwnAddress);
  module.def("counts", &Counts);
}
