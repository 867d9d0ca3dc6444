// A library for LD_PRELOAD that writes a line to the file SOCKETS_LOG for each socket of the internet that a process opens.
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

extern "C" int socket(int domain, int type, int protocol) {
  using Socket = int(int, int, int);
  static auto* real = reinterpret_cast<Socket*>(::dlsym(RTLD_NEXT, "socket"));
  const char* log = ::getenv("SOCKETS_LOG");
  if (log && (domain == AF_INET || domain == AF_INET6)) {
    const int file = ::open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    const char* line = domain == AF_INET ? "socket of IPv4\n" : "socket of IPv6\n";
    if (file >= 0 && ::write(file, line, strlen(line)) >= 0) ::close(file);
  }
  return real(domain, type, protocol);
}
