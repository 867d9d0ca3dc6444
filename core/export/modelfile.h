#pragma once
// Ollama's Modelfile for a GGUF (https://github.com/ollama/ollama/blob/main/docs/modelfile.md), with the chat template as Go's
// text/template says it.
//
// The pieces of text between turns are taken from what the Jinja template writes for conversations, put together in Go's terms,
// and held against what the template writes for others. A template that is more than pieces between turns gets no TEMPLATE, and
// Ollama takes the one in the GGUF.
#include <optional>
#include <string>
#include <vector>

#include "core/text/chat_template.h"

namespace forge {

// What a template writes around contents.
struct TurnPieces {
  std::string before_system, system_to_user;  // with a system message
  std::string before_user;                    // without one
  std::string user_to_answer;                 // also the generation prompt
  std::string answer_to_user;
};

// Nothing where pieces alone do not tell what the template writes.
std::optional<TurnPieces> turn_pieces(const ChatTemplate& chat);

// `bos` is taken from the front: Ollama's runner adds it. `stops` are texts that end an answer.
std::string modelfile(const std::string& gguf, const std::optional<TurnPieces>& pieces, const std::string& bos,
                      const std::vector<std::string>& stops);

}  // namespace forge
