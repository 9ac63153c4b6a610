#include "horovod_opt/csrc/io/overlay/store_connection.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>

namespace horovod_opt {
namespace io {

StoreConnection::~StoreConnection() {
  const int error = errno;
  if (fd_ >= 0) syscall(SYS_close, fd_);
  errno = error;
}

bool StoreConnection::Ask(const FileTable& table, std::uint32_t number, const char* text,
                          int passed) {
  fd_ = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  if (fd_ < 0) return false;
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::size_t length = strlen(table.StoreName());
  memcpy(address.sun_path + 1, table.StoreName(), std::min(length, sizeof address.sun_path - 1));
  const socklen_t bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + length);
  int done;
  do {
    done = connect(fd_, reinterpret_cast<sockaddr*>(&address), bytes);
  } while (done < 0 && errno == EINTR);
  if (done < 0) return false;
  const std::uint32_t request[2] = {table.header().id, number};
  iovec data[2] = {{const_cast<std::uint32_t*>(request), sizeof request},
                   {const_cast<char*>(text), strlen(text)}};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = data;
  message.msg_iovlen = 2;
  if (passed >= 0) {
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(header), &passed, sizeof passed);
  }
  long sent;
  do {
    sent = sendmsg(fd_, &message, MSG_NOSIGNAL);
  } while (sent < 0 && errno == EINTR);
  return sent >= 0;
}

bool StoreConnection::Say(char word) {
  long sent;
  do {
    sent = send(fd_, &word, 1, MSG_NOSIGNAL);
  } while (sent < 0 && errno == EINTR);
  return sent == 1;
}

int StoreConnection::Answer(int* received) {
  std::int32_t error = ECONNRESET;
  iovec data{&error, sizeof error};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))];
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  long got;
  do {
    got = recvmsg(fd_, &message, MSG_CMSG_CLOEXEC);
  } while (got < 0 && errno == EINTR);
  if (got != sizeof error) return got < 0 ? errno : ECONNRESET;
  if (received == nullptr) return error;
  *received = -1;
  const cmsghdr* header = CMSG_FIRSTHDR(&message);
  if (header != nullptr && header->cmsg_type == SCM_RIGHTS) {
    memcpy(received, CMSG_DATA(header), sizeof *received);
  } else if (error == 0) {
    error = EMFILE;  // the kernel had no descriptor for it
  }
  return error;
}

}  // namespace io
}  // namespace horovod_opt
