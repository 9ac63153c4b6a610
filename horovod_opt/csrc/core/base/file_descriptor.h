// A file descriptor with an owner, who closes it. Move-only.
#pragma once

#include <unistd.h>

#include <utility>

namespace horovod_opt {

class Descriptor {
 public:
  explicit Descriptor(int number = -1) : number_(number) {}
  Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  ~Descriptor() {
    if (number_ >= 0) close(number_);
  }

  int number() const { return number_; }  // negative: none

 private:
  int number_;
};

}  // namespace horovod_opt
