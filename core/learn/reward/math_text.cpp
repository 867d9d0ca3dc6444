#include "core/learn/reward/math_node.h"

#include <utility>

#include "core/lib/base/text.h"

namespace forge {
namespace {

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  for (size_t at = text.find(from); at != text.npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
}

constexpr std::pair<const char*, const char*> kSpellings[] = {
    {"−", "-"},
    {"–", "-"},
    {"×", "*"},
    {"·", "*"},
    {"⋅", "*"},
    {"÷", "/"},
    {"√", "\\sqrt "},
    {"π", "\\pi "},
    {"∞", "\\infty "},
    {"≤", "\\le "},
    {"≥", "\\ge "},
    {"≠", "\\ne "},
    {"∪", "\\cup "},
    {"²", "^{2}"},
    {"³", "^{3}"},
    {"½", "\\frac12 "},
    {"¼", "\\frac14 "},
    {"¾", "\\frac34 "},
    {"\xC2\xA0", " "},
    {"\xE2\x80\x89", " "},
    {"\xE2\x80\xAF", " "},
    {"°", ""},
    {"\\left", ""},
    {"\\right", ""},
    {"\\bigl", ""},
    {"\\bigr", ""},
    {"\\Bigl", ""},
    {"\\Bigr", ""},
    {"\\big", ""},
    {"\\Big", ""},
    {"\\!", ""},
    {"\\;", " "},
    {"\\:", " "},
    {"\\ ", " "},
    {"\\quad", " "},
    {"\\qquad", " "},
    {"~", " "},
    {"\\displaystyle", ""},
    {"\\limits", ""},
    {"\\degree", ""},
    {"^\\circ", ""},
    {"^{\\circ}", ""},
    {"^{ \\circ }", ""},
    {"\\%", "%"},
    {"\\$", ""},
    {"€", ""},
    {"£", ""},
    {"¥", ""},
    {"\\(", ""},
    {"\\)", ""},
    {"\\[", ""},
    {"\\]", ""},
    {"$", ""},
    {"\\dfrac", "\\frac"},
    {"\\tfrac", "\\frac"},
    {"\\cfrac", "\\frac"},
    {"\\leq", "\\le"},
    {"\\geq", "\\ge"},
    {"\\neq", "\\ne"},
    {"\\lvert", "|"},
    {"\\rvert", "|"},
    {"\\vert", "|"},
    {"\\mid", "|"},
    {"**", "^"},
    {"\\cdot", "*"},
    {"\\times", "*"},
    {"\\div", "/"},
    {"\\ast", "*"},
    {"\\lbrace", "\\{"},
    {"\\rbrace", "\\}"},
    {"\\mathrm{e}", "e"},
    {"\\mathrm{i}", "i"},
    {"\\dots", "…"},
};

// Writes 1\,234, 1{,}234 and 1,\!234 as 1,234.
void join_thousands(std::string& text) {
  for (const char* separator : {"\\,", "{,}", ",\\!", "\\!,"}) {
    const std::string_view mark = separator;
    for (size_t at = text.find(mark); at != text.npos; at = text.find(mark, at + 1)) {
      const size_t behind = at + mark.size();
      const bool digits = at > 0 && is_digit(text[at - 1]) && behind + 3 <= text.size() &&
                          is_digit(text[behind]) && is_digit(text[behind + 1]) &&
                          is_digit(text[behind + 2]) &&
                          (behind + 3 == text.size() || !is_digit(text[behind + 3]));
      if (digits) text.replace(at, mark.size(), ",");
    }
  }
  replace_all(text, "\\,", " ");
}

// Replaces \text{…} and similar commands. After a number their content is a unit and is removed,
// with its exponent; "and" and "or" become commas.
std::string without_texts(const std::string& text, bool& alone) {
  constexpr const char* kCommands[] = {"\\textbf", "\\textrm", "\\textit", "\\text",         "\\mathrm",
                                       "\\mathbf", "\\mathit", "\\mbox",   "\\operatorname", "\\mathcal"};
  std::string out, inside;
  for (size_t at = 0; at < text.size();) {
    size_t open = text.npos;
    for (const char* command : kCommands)
      if (text.compare(at, std::string_view(command).size(), command) == 0) {
        open = text.find_first_not_of(' ', at + std::string_view(command).size());
        break;
      }
    const size_t close = open != text.npos && text[open] == '{' ? text.find('}', open) : text.npos;
    if (close == text.npos) {
      out += text[at++];
      continue;
    }
    inside = std::string(trim(std::string_view(text).substr(open + 1, close - open - 1)));
    at = close + 1;
    if (inside == "and" || inside == "or") {
      out += ',';
      continue;
    }
    if (trim(out).empty() && trim(std::string_view(text).substr(at)).empty()) {
      alone = true;
      return inside;
    }
    const std::string_view before = trim(out);
    const bool unit = !before.empty() && is_digit(before.back()) && inside != "e" && inside != "i";
    if (inside.size() == 1 && !unit) {  // \mathrm{x} is a symbol
      out += inside;
      continue;
    }
    if (at < text.size() && text[at] == '^') {
      const size_t end = at + 1 < text.size() && text[at + 1] == '{' ? text.find('}', at) : at + 1;
      if (end != text.npos && end < text.size()) at = end + 1;
    }
    out += ' ';
  }
  return out;
}

}  // namespace

MathText plain_math(std::string_view latex) {
  MathText result;
  std::string text(trim(latex));
  replace_all(text, "\\\\", kRowEnd);
  join_thousands(text);
  text = without_texts(text, result.words);
  if (result.words) {
    result.text = text;
    return result;
  }
  for (const auto& [from, to] : kSpellings) replace_all(text, from, to);
  replace_all(text, " and ", ",");
  replace_all(text, " or ", ",");
  std::string_view rest = trim(text);
  while (!rest.empty() && (rest.back() == '.' || rest.back() == ',' || rest.back() == ';'))
    rest = trim(rest.substr(0, rest.size() - 1));
  if (!rest.empty() && rest.back() == '%') {
    result.percent = true;
    rest = trim(rest.substr(0, rest.size() - 1));
  }
  result.text = std::string(rest);
  return result;
}

}  // namespace forge
