#include "horovod_opt/csrc/io/files/open_files.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <fstream>
#include <string>

namespace horovod_opt {
namespace io {
namespace open_files_request_test {

// A folder as the kernel's, with one file system that has no block device.
class RequestBytesTest : public testing::Test {
 protected:
  RequestBytesTest() {
    char name[] = "/tmp/hio-test-XXXXXX";
    folder_ = mkdtemp(name);
    mkdir((folder_ + "/0:52").c_str(), 0700);
    Say("128");
  }
  ~RequestBytesTest() override {
    unlink(Path().c_str());
    rmdir((folder_ + "/0:52").c_str());
    rmdir(folder_.c_str());
  }

  std::string Path() const { return folder_ + "/0:52/read_ahead_kb"; }
  void Say(const std::string& text) { std::ofstream(Path()) << text << "\n"; }

  std::string folder_;
};

TEST_F(RequestBytesTest, IsWhatTheFileSystemSays) {
  EXPECT_EQ(RequestBytes(makedev(0, 52), folder_), 131072);
  Say("0");  // it reads ahead by itself
  EXPECT_EQ(RequestBytes(makedev(0, 52), folder_), 0);
}

TEST_F(RequestBytesTest, IsNotKnownOfOthers) {
  EXPECT_EQ(RequestBytes(makedev(0, 53), folder_), 0);
  EXPECT_EQ(RequestBytes(makedev(52, 52), folder_), 0);  // a block device
  Say("many");
  EXPECT_EQ(RequestBytes(makedev(0, 52), folder_), 0);
}

}  // namespace open_files_request_test
}  // namespace io
}  // namespace horovod_opt
