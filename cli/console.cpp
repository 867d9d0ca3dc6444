#include "cli/console.h"

#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>

#include "core/lib/base/printable.h"

namespace forge {
namespace {

// True if a signal to stop is pending. While an engine runs, such signals are blocked and queue up:
// none would end a write that waits for its reader.
bool asked_to_stop() {
  sigset_t pending;
  ::sigpending(&pending);
  return sigismember(&pending, SIGINT) == 1 || sigismember(&pending, SIGTERM) == 1;
}

// Waits until the descriptor can be written. Returns false with errno EINTR when the user asks to
// stop first.
bool wait_for_reader(int descriptor) {
  constexpr int kLookAgain = 200;  // milliseconds
  pollfd wait{descriptor, POLLOUT, 0};
  for (;;) {
    const int ready = ::poll(&wait, 1, kLookAgain);
    if (ready > 0) return true;
    if (ready < 0 && errno != EINTR) return true;  // write() says what is wrong
    errno = EINTR;
    if (asked_to_stop()) return false;
  }
}

// Writes without a buffer, since fwrite's would hide a full disk until exit, in pieces that a pipe
// takes whole once it has room.
bool write_all(int descriptor, std::string_view text) {
  while (!text.empty()) {
    if (!wait_for_reader(descriptor)) return false;
    const ssize_t count = ::write(descriptor, text.data(), std::min<size_t>(text.size(), PIPE_BUF));
    if (count < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (count < 0) return false;
    text.remove_prefix(static_cast<size_t>(count));
  }
  return true;
}

// True for a terminal that can move its cursor.
bool can_move(int descriptor) {
  const char* term = std::getenv("TERM");
  return isatty(descriptor) && term && std::strcmp(term, "dumb") != 0;
}

}  // namespace

void print(std::string_view text) {
  if (write_all(STDOUT_FILENO, text)) return;
  if (errno == EPIPE) throw ReaderGone{};
  if (errno == EINTR) throw Error(ErrorKind::interrupted, "stopped while nothing read stdout");
  throw Error(ErrorKind::environment, std::string("cannot write to stdout: ") + std::strerror(errno));
}

void print_text(std::string_view text) {
  if (isatty(STDOUT_FILENO)) return print(printable(text));
  print(text);
}

bool stdout_is_read() {
  constexpr int kPatience = 1000;  // milliseconds
  pollfd wait{STDOUT_FILENO, POLLOUT, 0};
  return ::poll(&wait, 1, kPatience) != 0;
}

void print_json(const Json& value) { print(dump_json(value) + "\n"); }

void print_either(bool json, const Json& value, std::string_view text) {
  json ? print_json(value) : print(text);
}

void say(std::string_view line) { write_all(STDERR_FILENO, printable(line) + "\n"); }

Terminal terminal() {
  Terminal result{.interactive = can_move(STDERR_FILENO)};
  winsize size{};
  if (::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) result.width = size.ws_col;
  return result;
}

bool stdout_has_color() {
  const char* none = std::getenv("NO_COLOR");
  return can_move(STDOUT_FILENO) && !(none && none[0] != '\0');
}

std::string cut_to_width(std::string_view text, int width) {
  size_t end = 0;
  int columns = 0;
  while (end < text.size()) {
    bool starts_character = (static_cast<unsigned char>(text[end]) & 0xC0) != 0x80;
    if (starts_character && columns == width) break;
    columns += starts_character;
    ++end;
  }
  return std::string(text.substr(0, end));
}

}  // namespace forge
