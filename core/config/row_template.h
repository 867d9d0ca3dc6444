#pragma once
// A user's own template of a prompt or completion: text with fields of the row in braces.
//
//   parse_row_template("Q: {question}\nA:")   // {"Q: ", false}, {"question", true}, {"\nA:", false}
//
// `{{` and `}}` are braces. A field is a key of the row or a dotted path (`answer.text`, `choices.0`).
#include <string>
#include <vector>

namespace forge {

struct TemplatePiece {
  std::string text;
  bool is_field = false;
};

// Fills `problem` with "what, expected what" when the text is not a template.
std::vector<TemplatePiece> parse_row_template(const std::string& text, std::string& problem);

// The names under which `columns` knows fields of a row, and keys of a turn.
const std::vector<std::string>& row_fields();
const std::vector<std::string>& turn_fields();
// What a field that other tools know is called here: "query" (LLaMA-Factory) is "input"; empty when unknown.
std::string field_alias(const std::string& name);
// The roles that `roles` maps to.
const std::vector<std::string>& mapped_roles();

}  // namespace forge
