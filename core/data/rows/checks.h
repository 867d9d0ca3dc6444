#pragma once
// Faults that `forge data`, plan and run look for in rows: one table, with one row per check.
//
//   for (const Check& check : data_checks()) check.run(text, emit);
//
// A check has a name, a severity, the sentence that a person reads, and, if one row suffices to see
// the fault, a function. Checks without a function are made by the report itself, which knows all
// rows.
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "core/data/rows/rows.h"

namespace forge {

enum class Severity { fault, warning, note };
const char* name_of(Severity severity);

struct Turn {
  std::string role;  // of prompts and completions: user, assistant; of documents: text
  std::string text;
  std::string pointer;  // where it is in the row, as JSON pointer
  int64_t calls = 0;    // tool calls of an assistant's turn
  std::vector<std::string> ids = {};  // of these calls, or the one that a tool's result names
};
// The texts of a row as people wrote them; rows of finished tokens have no turns.
using RowText = std::vector<Turn>;
RowText text_of(const Row& row);
// A text of a row that is checked by itself from its beginning. Answers to one prompt give one text
// each: the prompt's turns are checked with the first, and the first `checked` turns of each other
// text were checked before.
struct CheckedText {
  RowText turns;
  size_t checked = 0;
};
std::vector<CheckedText> checked_texts(const Row& row);

// Receives a finding: where it is in the row, and what exactly. Secrets arrive masked.
using Emit = std::function<void(const std::string& pointer, const std::string& detail)>;

struct Check {
  const char* name;
  Severity severity;
  const char* says;
  void (*run)(const RowText& text, const Emit& emit) = nullptr;
  const char* means = "";  // consequence or remedy, for the plan's warning
};
std::span<const Check> data_checks();
// Returns the index into data_checks(); the name must be in the table.
size_t check_named(std::string_view name);

// Returns what is said of a control token that a text writes out; of a document's, with the key
// that makes it a separator.
std::string control_token_detail(const Turn& turn, std::string_view token);

// Returns "sk-p… (51 characters)" for "sk-proj-…" of 51 characters.
std::string masked(std::string_view secret);

}  // namespace forge
