// Files of random bytes, and the table that names them.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "horovod_opt/csrc/io/files/open_files.h"

namespace horovod_opt {
namespace io {

class TestFiles {
 public:
  TestFiles(int files, std::size_t bytes) {
    char name[] = "/tmp/hio-test-XXXXXX";
    folder_ = mkdtemp(name);
    std::mt19937 random(7);
    for (int i = 0; i < files; ++i) {
      std::string content(bytes, '\0');
      for (char& byte : content) byte = static_cast<char>(random());
      std::ofstream(Path(i)) << content;
      contents.push_back(std::move(content));
      names_ += std::to_string(i);
      ends_.push_back(static_cast<std::int64_t>(names_.size()));
      struct stat status;
      EXPECT_EQ(stat(Path(i).c_str(), &status), 0);
      bytes_.push_back(status.st_size);
      mtimes_.push_back(status.st_mtim.tv_sec * std::int64_t{1000000000} +
                        status.st_mtim.tv_nsec);
    }
  }
  TestFiles(const TestFiles&) = delete;
  ~TestFiles() {
    for (std::size_t i = 0; i < contents.size(); ++i) unlink(Path(static_cast<int>(i)).c_str());
    rmdir(folder_.c_str());
  }

  std::string Path(int file) const { return folder_ + "/" + std::to_string(file); }

  FileTable Table() const {
    return {folder_,       static_cast<std::int64_t>(ends_.size()), names_.data(), ends_.data(),
            bytes_.data(), mtimes_.data()};
  }

  std::vector<std::string> contents;

 private:
  std::string folder_, names_;
  std::vector<std::int64_t> ends_, bytes_, mtimes_;
};

}  // namespace io
}  // namespace horovod_opt
