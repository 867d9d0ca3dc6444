// A library for LD_PRELOAD that ends a process with SIGKILL right before its k-th call that changes
// files, or makes that call fail, so that a test can do so at each of them in turn. It needs no
// ptrace, which containers forbid.
//
//   KILL_IN=forge-engine  only in a process of this name; the others run untouched
//   KILL_UNDER=/path      only calls on files beneath this folder count
//   KILL_AT=k             0: never
//   KILL_TORN=1           a write is done by half before the kill
//   KILL_EXCHANGE=0       two paths cannot be exchanged, as on NFS
//   KILL_ERROR=5          no kill: the call fails with this errno
//   KILL_LOG=file         gets a line "call path" for each that counted
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <atomic>
#include <string>

namespace {

std::string setting(const char* name) {
  const char* value = ::getenv(name);
  return value ? value : "";
}

struct Settings {
  std::string under = setting("KILL_UNDER");
  bool here = setting("KILL_IN") == program_invocation_short_name && !under.empty();
  bool exchanges = setting("KILL_EXCHANGE") != "0";
  bool torn = setting("KILL_TORN") == "1";
  long at = ::atol(setting("KILL_AT").c_str());
  int error = ::atoi(setting("KILL_ERROR").c_str());
  // The log is opened by a system call, since ::open is wrapped below.
  long log = here && !setting("KILL_LOG").empty()
                 ? ::syscall(SYS_openat, AT_FDCWD, setting("KILL_LOG").c_str(),
                             O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666)
                 : -1;
};

const Settings& settings() {
  static const Settings all;
  return all;
}

std::atomic<long> calls{0};

std::string path_of(int descriptor) {
  char target[PATH_MAX];
  const std::string link = "/proc/self/fd/" + std::to_string(descriptor);
  const ssize_t length = ::readlink(link.c_str(), target, sizeof target);
  return length > 0 ? std::string(target, static_cast<size_t>(length)) : "";
}

std::string path_at(int folder, const char* path) {
  if (path[0] == '/') return path;
  char here[PATH_MAX];
  const std::string base = folder != AT_FDCWD ? path_of(folder) : ::getcwd(here, sizeof here) ? here : "";
  return base + "/" + path;
}

// True if the process must be killed at this call.
bool is_due(const char* call, const std::string& path) {
  if (path.compare(0, settings().under.size(), settings().under) != 0) return false;
  if (settings().log >= 0) {
    const std::string line = std::string(call) + " " + path + "\n";
    (void)!::syscall(SYS_write, settings().log, line.data(), line.size());
  }
  return ++calls == settings().at;
}

void die() { ::syscall(SYS_kill, ::getpid(), SIGKILL); }

// True if the call must fail, with errno set. `path` is only evaluated in the targeted process.
template <class Path>
bool fails(const char* call, Path path) {
  if (!settings().here) return false;
  const int before = errno;
  const bool due = is_due(call, path());
  if (due && settings().error == 0) die();
  errno = due ? settings().error : before;
  return due;
}

template <class Function>
Function* next(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

}  // namespace

#define NEXT(name) static auto* const real = next<decltype(::name)>(#name)

#define OPEN(name)                                                                 \
  extern "C" int name(const char* path, int flags, ...) {                          \
    NEXT(name);                                                                    \
    va_list rest;                                                                  \
    va_start(rest, flags);                                                         \
    const mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(rest, mode_t) : 0;  \
    va_end(rest);                                                                  \
    if ((flags & O_CREAT) && fails("create", [&] { return path_at(AT_FDCWD, path); })) return -1; \
    return real(path, flags, mode);                                                \
  }
OPEN(open)
OPEN(open64)

#define ON_PATH(name, parameters, arguments, folder, path) \
  extern "C" int name parameters {                         \
    NEXT(name);                                            \
    if (fails(#name, [&] { return path_at(folder, path); })) return -1; \
    return real arguments;                                 \
  }
ON_PATH(rename, (const char* from, const char* to), (from, to), AT_FDCWD, to)
extern "C" int renameat2(int from_folder, const char* from, int to_folder, const char* to, unsigned flags) {
  NEXT(renameat2);
  if (settings().here && !settings().exchanges && (flags & RENAME_EXCHANGE)) {
    errno = EINVAL;
    return -1;
  }
  if (fails("renameat2", [&] { return path_at(to_folder, to); })) return -1;
  return real(from_folder, from, to_folder, to, flags);
}
ON_PATH(unlink, (const char* path), (path), AT_FDCWD, path)
ON_PATH(unlinkat, (int folder, const char* path, int flags), (folder, path, flags), folder, path)
ON_PATH(rmdir, (const char* path), (path), AT_FDCWD, path)
ON_PATH(remove, (const char* path), (path), AT_FDCWD, path)
ON_PATH(mkdir, (const char* path, mode_t mode), (path, mode), AT_FDCWD, path)
ON_PATH(truncate, (const char* path, off_t length), (path, length), AT_FDCWD, path)

#define ON_DESCRIPTOR(name, parameters, arguments, descriptor) \
  extern "C" int name parameters {                             \
    NEXT(name);                                                \
    if (fails(#name, [&] { return path_of(descriptor); })) return -1; \
    return real arguments;                                     \
  }
ON_DESCRIPTOR(fsync, (int descriptor), (descriptor), descriptor)
ON_DESCRIPTOR(fdatasync, (int descriptor), (descriptor), descriptor)
ON_DESCRIPTOR(ftruncate, (int descriptor, off_t length), (descriptor, length), descriptor)

extern "C" ssize_t write(int descriptor, const void* bytes, size_t size) {
  NEXT(write);
  if (settings().here && is_due("write", path_of(descriptor))) {
    if (settings().torn) real(descriptor, bytes, size / 2);
    if (settings().error == 0) die();
    errno = settings().error;
    return -1;
  }
  return real(descriptor, bytes, size);
}

extern "C" ssize_t writev(int descriptor, const iovec* parts, int number) {
  NEXT(writev);
  if (fails("writev", [&] { return path_of(descriptor); })) return -1;
  return real(descriptor, parts, number);
}
