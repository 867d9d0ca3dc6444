#pragma once
// Lines that a user types at a terminal, with editing, history and completion of /commands by
// libedit. The library is loaded when it is needed. Without it, and if stdin is no terminal, lines
// are read as they come.
//
//   LineEditor editor({.history = chat_history_path(), .words = {"/help", "/quit"}});
//   while (std::optional<std::string> line = editor.read("> ")) …
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace forge {

struct LineEditorOptions {
  std::string history;             // a file that lines are kept in; empty: none
  std::vector<std::string> words;  // words that Tab completes at the beginning of a line
};

class LineEditor {
 public:
  explicit LineEditor(LineEditorOptions options);
  ~LineEditor();  // writes the history; that it cannot is no error
  LineEditor(const LineEditor&) = delete;
  LineEditor& operator=(const LineEditor&) = delete;

  // Returns the next line without its end; nothing at the end of input. `sign` is shown on a
  // terminal only.
  std::optional<std::string> read(const std::string& sign);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Returns FORGE_HISTORY, or forge/chat-history in XDG_STATE_HOME or ~/.local/state. Empty if
// FORGE_HISTORY is empty, or no home is known.
std::string chat_history_path();

}  // namespace forge
