#pragma once
// Faults that `forge data`, plan and run look for in rows: one table, one row a check.
//
//   for (const Check& check : row_checks()) check.run(text, emit);
//
// A check is a name, how bad it is, the sentence a person reads, and, where one row suffices to see it, a
// function. Checks without a function are made by the report itself, which knows all rows.
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
  std::string pointer;  // where it stands in the row, as JSON pointer
  bool calls = false;   // an assistant's turn with tool calls
};
// A row as what people wrote; rows of finished tokens have no turns.
using RowText = std::vector<Turn>;
RowText text_of(const Row& row);
// The same as texts that each begin at the beginning, to be checked one by one: of answers to one prompt the first with
// it, and `checked` turns of the others were in an earlier one.
struct CheckedText {
  RowText turns;
  size_t checked = 0;
};
std::vector<CheckedText> checked_texts(const Row& row);

// Where in the row, and what exactly. Secrets arrive masked.
using Emit = std::function<void(const std::string& pointer, const std::string& detail)>;

struct Check {
  const char* name;
  Severity severity;
  const char* says;
  void (*run)(const RowText& text, const Emit& emit) = nullptr;
  const char* means = "";  // consequence or remedy, for the plan's warning
};
std::span<const Check> data_checks();
// Index into data_checks(); the name must be in the table.
size_t check_named(std::string_view name);

// "sk-proj-…" of 51 characters → "sk-p… (51 characters)".
std::string masked(std::string_view secret);

}  // namespace forge
