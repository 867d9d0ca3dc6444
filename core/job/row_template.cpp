#include "core/job/row_template.h"

namespace forge {

std::vector<TemplatePiece> parse_row_template(const std::string& text, std::string& problem) {
  std::vector<TemplatePiece> pieces{{"", false}};
  bool names_a_field = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    const bool doubled = i + 1 < text.size() && text[i + 1] == c;
    if (c != '{' && c != '}') {
      pieces.back().text += c;
    } else if (doubled) {
      pieces.back().text += c;
      ++i;
    } else if (c == '}') {
      problem = "a } without its {, expected }} for a brace";
      return {};
    } else {
      const size_t end = text.find_first_of("{}", i + 1);
      if (end == std::string::npos || text[end] != '}' || end == i + 1) {
        problem = "a { without a field and }, expected {field}, or {{ for a brace";
        return {};
      }
      pieces.push_back({text.substr(i + 1, end - i - 1), true});
      pieces.push_back({"", false});
      names_a_field = true;
      i = end;
    }
  }
  if (!names_a_field) problem = "names no field of the row, expected at least one such as {question}";
  std::erase_if(pieces, [](const TemplatePiece& piece) { return piece.text.empty(); });
  return pieces;
}

const std::vector<std::string>& row_fields() {
  static const std::vector<std::string> all{
      "messages",  "conversations", "tools",    "system",         "instruction",
      "input",     "output",        "history",  "prompt",         "text",
      "chosen",    "completion",    "rejected", "label",          "score",
      "input_ids", "labels",        "mask",     "attention_mask", "rejected_response", "tool_calls"};
  return all;
}

const std::vector<std::string>& turn_fields() {
  static const std::vector<std::string> all{"from", "value", "role", "content"};
  return all;
}

std::string field_alias(const std::string& name) {
  static constexpr std::pair<const char*, const char*> kAliases[] = {
      {"query", "input"},
      {"response", "output"},
      {"question", "instruction"},
      {"answer", "output"},
      {"human", "prompt"},
      {"model", "completion"},
      {"kto_tag", "label"},
      {"role_tag", "from"},
      {"content_tag", "value"},
      {"conversation", "conversations"},
      {"field_messages", "messages"},
      {"field_instruction", "instruction"},
      {"field_input", "input"},
      {"field_output", "output"},
      {"field_system", "system"},
  };
  for (const auto& [alias, field] : kAliases)
    if (name == alias) return field;
  return "";
}

const std::vector<std::string>& mapped_roles() {
  static const std::vector<std::string> all{"system", "user", "assistant", "tool", "tool_call"};
  return all;
}

}  // namespace forge
