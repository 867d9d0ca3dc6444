#pragma once
// Ollama's Modelfile for a GGUF (https://github.com/ollama/ollama/blob/main/docs/modelfile.md),
// with the chat template translated to Go's text/template.
//
// The pieces of text between turns are taken from the Jinja template's output for conversations,
// put into a Go template, and compared with the output for other conversations. A template that
// writes more than pieces between turns gets no TEMPLATE, and Ollama uses the one in the GGUF.
#include <optional>
#include <string>
#include <vector>

#include "core/lib/text/chat_template.h"

namespace forge {

// The texts that a template writes around contents.
struct TurnPieces {
  std::string before_system, system_to_user;  // with a system message
  std::string before_user;                    // without one
  std::string user_to_answer;                 // also the generation prompt
  std::string answer_to_user;
};

// Returns the pieces, or nothing if pieces alone do not reproduce the template's output.
std::optional<TurnPieces> turn_pieces(const ChatTemplate& chat);

// Returns the Modelfile. `bos` is removed from the front, since Ollama's runner adds it. `stops`
// are texts that end an answer.
std::string modelfile(const std::string& gguf, const std::optional<TurnPieces>& pieces, const std::string& bos,
                      const std::vector<std::string>& stops);

}  // namespace forge
