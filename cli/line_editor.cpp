#include "cli/line_editor.h"

#include <dlfcn.h>
#include <langinfo.h>
#include <locale.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iostream>

#include "core/lib/base/text.h"

namespace forge {
namespace {

namespace fs = std::filesystem;

constexpr int kMostLines = 1000;

// The part of libedit's readline interface that is used (editline/readline.h).
struct Libedit {
  char* (*readline)(const char* prompt) = nullptr;
  void (*using_history)() = nullptr;
  int (*add_history)(const char* line) = nullptr;
  int (*read_history)(const char* path) = nullptr;
  int (*write_history)(const char* path) = nullptr;
  void (*stifle_history)(int most) = nullptr;
  char** (*rl_completion_matches)(const char* text, char* (*generate)(const char*, int)) = nullptr;
  char** (**rl_attempted_completion_function)(const char*, int, int) = nullptr;
  int* rl_attempted_completion_over = nullptr;  // keeps Tab from completing names of files
  int* rl_catch_signals = nullptr;              // so that a signal leaves the terminal as it was
  const char** rl_readline_name = nullptr;
};

template <class T>
bool find(void* library, const char* name, T& symbol) {
  symbol = reinterpret_cast<T>(::dlsym(library, name));
  return symbol != nullptr;
}

std::optional<Libedit> load_libedit() {
  void* library = ::dlopen("libedit.so.2", RTLD_NOW | RTLD_LOCAL);  // Debian's and Ubuntu's name
  if (!library) library = ::dlopen("libedit.so.0", RTLD_NOW | RTLD_LOCAL);  // everybody else's
  Libedit l;
  const bool whole =
      library && find(library, "readline", l.readline) && find(library, "using_history", l.using_history) &&
      find(library, "add_history", l.add_history) && find(library, "read_history", l.read_history) &&
      find(library, "write_history", l.write_history) && find(library, "stifle_history", l.stifle_history) &&
      find(library, "rl_completion_matches", l.rl_completion_matches) &&
      find(library, "rl_attempted_completion_function", l.rl_attempted_completion_function) &&
      find(library, "rl_attempted_completion_over", l.rl_attempted_completion_over) &&
      find(library, "rl_catch_signals", l.rl_catch_signals) &&
      find(library, "rl_readline_name", l.rl_readline_name);
  return whole ? std::optional(l) : std::nullopt;
}

// Sets a UTF-8 locale: the library reads characters by the process's locale and shows no others.
// Texts are UTF-8 here whatever the user's locale is.
void read_utf8() {
  ::setlocale(LC_CTYPE, "");
  if (std::strcmp(::nl_langinfo(CODESET), "UTF-8") != 0) ::setlocale(LC_CTYPE, "C.UTF-8");
}

// The library's completion takes functions without a place for their data.
const LineEditorOptions* completing = nullptr;
const Libedit* libedit = nullptr;

char* next_word(const char* text, int number) {
  static size_t at;
  if (number == 0) at = 0;
  while (at < completing->words.size())
    if (const std::string& word = completing->words[at++]; starts_with(word, text))
      return ::strdup(word.c_str());
  return nullptr;
}

char** complete(const char* text, int begin, int) {
  *libedit->rl_attempted_completion_over = 1;
  return begin == 0 ? libedit->rl_completion_matches(text, next_word) : nullptr;
}

}  // namespace

struct LineEditor::State {
  LineEditorOptions options;
  std::optional<Libedit> edit;
  std::string newest;
};

LineEditor::LineEditor(LineEditorOptions options)
    : state_(std::make_unique<State>(State{std::move(options), {}, {}})) {
  if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO)) return;
  state_->edit = load_libedit();
  if (!state_->edit) return;
  read_utf8();
  const Libedit& edit = *state_->edit;
  libedit = &edit;
  completing = &state_->options;
  *edit.rl_readline_name = "forge";
  *edit.rl_catch_signals = 1;
  *edit.rl_attempted_completion_function = complete;
  edit.using_history();
  edit.stifle_history(kMostLines);
  if (!state_->options.history.empty()) edit.read_history(state_->options.history.c_str());
}

LineEditor::~LineEditor() {
  if (!state_->edit || state_->options.history.empty() || state_->newest.empty()) return;
  std::error_code error;
  const fs::path path(state_->options.history);
  fs::create_directories(path.parent_path(), error);
  const mode_t mask = ::umask(077);  // the history is readable by its owner alone
  state_->edit->write_history(path.c_str());
  ::umask(mask);
}

std::optional<std::string> LineEditor::read(const std::string& sign) {
  if (!state_->edit) {
    if (isatty(STDIN_FILENO)) std::cerr << sign << std::flush;
    std::string line;
    if (!std::getline(std::cin, line)) return std::nullopt;
    return line;
  }
  char* typed = state_->edit->readline(sign.c_str());
  if (!typed) return std::nullopt;
  std::string line = typed;
  std::free(typed);
  if (!trim(line).empty() && line != state_->newest) {
    state_->edit->add_history(line.c_str());
    state_->newest = line;
  }
  return line;
}

std::string chat_history_path() {
  if (const char* path = std::getenv("FORGE_HISTORY")) return path;
  const char *state = std::getenv("XDG_STATE_HOME"), *home = std::getenv("HOME");
  if (state && state[0] == '/') return std::string(state) + "/forge/chat-history";
  return home && home[0] == '/' ? std::string(home) + "/.local/state/forge/chat-history" : "";
}

}  // namespace forge
