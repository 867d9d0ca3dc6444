#include "cli/console.h"

#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include "core/base/printable.h"


namespace forge {
namespace {

// The whole text in one go: fwrite's buffer would hide a full disk until exit.
bool write_all(int descriptor, std::string_view text) {
  while (!text.empty()) {
    ssize_t count = ::write(descriptor, text.data(), text.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && errno == EAGAIN) {  // another process sharing the pipe or terminal made it non-blocking
      pollfd wait{descriptor, POLLOUT, 0};
      ::poll(&wait, 1, -1);
      continue;
    }
    if (count < 0) return false;
    text.remove_prefix(static_cast<size_t>(count));
  }
  return true;
}

bool environment_set(const char* name) {
  const char* value = std::getenv(name);
  return value && value[0] != '\0';
}

bool can_color(int descriptor) {
  const char* term = std::getenv("TERM");
  return isatty(descriptor) && !environment_set("NO_COLOR") && term && std::strcmp(term, "dumb") != 0;
}

}  // namespace

void print(std::string_view text) {
  if (write_all(STDOUT_FILENO, text)) return;
  if (errno == EPIPE) throw ReaderGone{};
  throw Error(ErrorKind::environment, std::string("cannot write to stdout: ") + std::strerror(errno));
}

void print_json(const Json& value) { print(dump_json(value) + "\n"); }

void say(std::string_view line) { write_all(STDERR_FILENO, printable(line) + "\n"); }

void say_error(const std::string& message, const std::string& hint) {
  say(message);
  if (!hint.empty()) say("  " + hint);
}

Terminal terminal() {
  Terminal result;
  const char* term = std::getenv("TERM");
  result.interactive = isatty(STDERR_FILENO) && term && std::strcmp(term, "dumb") != 0;
  result.color = can_color(STDERR_FILENO);
  winsize size{};
  if (::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) result.width = size.ws_col;
  return result;
}

bool stdout_has_color() { return can_color(STDOUT_FILENO); }

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
