#include "core/run/export/modelfile.h"

#include "core/lib/base/error.h"
#include "core/lib/base/text.h"

namespace forge {
namespace {

struct Turn {
  const char* role;
  const char* content;
};

std::string render(const ChatTemplate& chat, const std::vector<Turn>& turns) {
  Json messages = Json::array();
  for (const Turn& turn : turns) messages.push_back({{"role", turn.role}, {"content", turn.content}});
  return text_of(chat.render(messages, nullptr, turns.back().role == std::string("user")));
}

// Returns the text before, between and after the contents, if they all occur in `text` in order,
// each once; else empty.
std::vector<std::string> around(const std::string& text, const std::vector<Turn>& turns) {
  std::vector<std::string> pieces;
  size_t begin = 0;
  for (const Turn& turn : turns) {
    const size_t at = text.find(turn.content, begin);
    if (at == std::string::npos) return {};
    pieces.push_back(text.substr(begin, at - begin));
    begin = at + std::string(turn.content).size();
  }
  pieces.push_back(text.substr(begin));
  return pieces;
}

std::string put_together(const TurnPieces& pieces, const std::vector<Turn>& turns) {
  std::string text;
  for (size_t i = 0; i < turns.size(); ++i) {
    const std::string role = turns[i].role;
    const bool after_system = i > 0 && turns[i - 1].role == std::string("system");
    if (role == "system") text += pieces.before_system;
    if (role == "user") text += i == 0 ? pieces.before_user : after_system ? pieces.system_to_user : pieces.answer_to_user;
    text += turns[i].content;
    if (role == "user") text += pieces.user_to_answer;
  }
  return text;
}

// Escapes text for a Go template, which would read its braces as actions.
std::string quoted(const std::string& text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text.compare(i, 2, "{{") == 0) {
      out += "{{ \"{{\" }}";
      ++i;
    } else {
      out += text[i];
    }
  }
  return out;
}

std::string without_prefix(const std::string& text, const std::string& prefix) {
  return !prefix.empty() && starts_with(text, prefix) ? text.substr(prefix.size()) : text;
}

// Returns the Go template. Ollama puts the system message first among .Messages and, joined, into
// .System.
std::string go_template(const TurnPieces& pieces, const std::string& bos) {
  return "{{- range $i, $m := .Messages }}{{ if eq $m.Role \"system\" }}" + quoted(without_prefix(pieces.before_system, bos)) +
         "{{ $m.Content }}{{ else if eq $m.Role \"user\" }}{{ if eq $i 0 }}" + quoted(without_prefix(pieces.before_user, bos)) +
         "{{ else if and (eq $i 1) $.System }}" + quoted(pieces.system_to_user) + "{{ else }}" + quoted(pieces.answer_to_user) +
         "{{ end }}{{ $m.Content }}" + quoted(pieces.user_to_answer) +
         "{{ else if eq $m.Role \"assistant\" }}{{ $m.Content }}{{ end }}{{ end }}";
}

}  // namespace

std::optional<TurnPieces> turn_pieces(const ChatTemplate& chat) {
  // Marker words that no template writes or trims.
  const std::vector<Turn> told{{"system", "Sysword"}, {"user", "Askword"}, {"assistant", "Saidword"}, {"user", "Moreword"}};
  const std::vector<Turn> bare{{"user", "Askword"}};
  const std::vector<std::vector<Turn>> others{
      {{"user", "Oneword"}, {"assistant", "Twoword"}, {"user", "Threeword"}, {"assistant", "Fourword"}, {"user", "Fiveword"}},
      {{"system", "Ruleword"}, {"user", "Oneword"}}};
  try {
    const std::vector<std::string> with = around(render(chat, told), told), without = around(render(chat, bare), bare);
    if (with.empty() || without.empty()) return std::nullopt;
    const TurnPieces pieces{with[0], with[1], without[0], with[4], with[3]};
    for (const std::vector<Turn>& turns : {told, bare, others[0], others[1]})
      if (put_together(pieces, turns) != render(chat, turns)) return std::nullopt;
    return pieces;
  } catch (const Error&) {  // it expects other turns
    return std::nullopt;
  }
}

std::string modelfile(const std::string& gguf, const std::optional<TurnPieces>& pieces, const std::string& bos,
                      const std::vector<std::string>& stops) {
  std::string text = "FROM ./" + gguf + "\n";
  if (pieces && go_template(*pieces, bos).find("\"\"\"") == std::string::npos)
    text += "TEMPLATE \"\"\"" + go_template(*pieces, bos) + "\"\"\"\n";
  else
    text += "# Go's templates cannot express this chat template: Ollama takes the one in the GGUF.\n";
  for (const std::string& stop : stops) text += "PARAMETER stop " + dump_json(stop) + "\n";
  return text;
}

}  // namespace forge
