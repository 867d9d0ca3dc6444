#pragma once
// A user's own template of a prompt or completion: text with fields of the row in braces.
//
//   parse_row_template("Q: {question}\nA:")   // {"Q: ", false}, {"question", true}, {"\nA:", false}
//
// `{{` and `}}` are literal braces. A field is a key of the row or a dotted path (`answer.text`,
// `choices.0`).
#include <string>
#include <vector>

namespace forge {

struct TemplatePiece {
  std::string text;
  bool is_field = false;
};

// Returns the template's pieces. Fills `problem` with "problem, expected form" if the text is not a
// template.
std::vector<TemplatePiece> parse_row_template(const std::string& text, std::string& problem);

// Return the names under which `columns` knows fields of a row, and keys of a turn.
const std::vector<std::string>& row_fields();
const std::vector<std::string>& turn_fields();
// Returns forge's name of a field that other tools know: "input" for "query" (LLaMA-Factory); empty
// if unknown.
std::string field_alias(const std::string& name);
// Returns the roles that `roles` maps to.
const std::vector<std::string>& mapped_roles();

}  // namespace forge
