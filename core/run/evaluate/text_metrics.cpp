#include "core/run/evaluate/text_metrics.h"

#include <utf8proc.h>

#include <algorithm>
#include <cstring>
#include <map>

#include "core/lib/base/error.h"
#include "core/lib/text/tokenizer/unicode.h"

namespace forge {
namespace {

using text::append_utf8;
using text::classes_of;
using text::next_char;

using Words = std::vector<std::string>;

// Lowers letters like Python's str.lower, including the one character that becomes two. A final
// sigma stays σ, on both sides of a comparison.
std::string lower_case(std::string_view text) {
  constexpr uint32_t kDottedI = 0x130, kDotAbove = 0x307;
  std::string lowered;
  for (size_t at = 0; at < text.size();) {
    const uint32_t code = next_char(text, at);
    append_utf8(lowered, code == kDottedI
                             ? 'i'
                             : static_cast<uint32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(code))));
    if (code == kDottedI) append_utf8(lowered, kDotAbove);
  }
  return lowered;
}

bool is_ascii_punctuation(uint32_t code) {
  return code < 0x80 && std::strchr("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~", static_cast<int>(code)) &&
         code != 0;
}

// True for the characters of Python's str.isspace: Unicode's White_Space and four separators of
// ASCII.
bool is_blank(uint32_t code) { return (code >= 0x1C && code <= 0x1F) || (classes_of(code) & text::kSpace); }

// True for the characters that \w matches in Python.
bool is_word_character(uint32_t code) { return classes_of(code) & (text::kLetter | text::kNumber); }

double f_measure(double common, size_t answer, size_t reference) {
  if (common == 0) return 0;
  const double precision = common / static_cast<double>(answer),
               recall = common / static_cast<double>(reference);
  return 2 * precision * recall / (precision + recall);
}

double f1(const Words& answer, const Words& reference) {
  if (answer.empty() || reference.empty()) return answer.empty() && reference.empty();
  std::map<std::string, int64_t> left;
  for (const std::string& word : reference) ++left[word];
  double common = 0;
  for (const std::string& word : answer) common += left[word]-- > 0;
  return f_measure(common, answer.size(), reference.size());
}

// Keeps one row of the table at a time: reference words × 4 bytes of memory, answer × reference
// steps.
int64_t longest_common_subsequence(const Words& a, const Words& b) {
  std::vector<int32_t> row(b.size() + 1, 0);
  for (const std::string& word : a) {
    int32_t diagonal = 0;
    for (size_t k = 1; k <= b.size(); ++k) {
      const int32_t above = row[k];
      row[k] = word == b[k - 1] ? diagonal + 1 : std::max(above, row[k - 1]);
      diagonal = above;
    }
  }
  return row.back();
}

// Returns the words that exact_match and f1 compare.
Words squad_words(std::string_view text) {
  Words words;
  std::string word, run;  // a run lies between two \b
  const auto end_run = [&] {
    if (run != "a" && run != "an" && run != "the") {
      word += run;
    } else if (!word.empty()) {  // an article becomes a blank
      words.push_back(std::move(word));
      word.clear();
    }
    run.clear();
  };
  const auto end_word = [&] {
    end_run();
    if (!word.empty()) words.push_back(std::move(word));
    word.clear();
  };
  const std::string lowered = lower_case(text);
  for (size_t at = 0; at < lowered.size();) {
    const uint32_t code = next_char(lowered, at);
    if (is_ascii_punctuation(code)) continue;
    if (is_blank(code)) {
      end_word();
    } else if (is_word_character(code)) {
      append_utf8(run, code);
    } else {
      end_run();
      append_utf8(word, code);
    }
  }
  end_word();
  return words;
}

// Returns the words that rouge_l compares.
Words rouge_words(std::string_view text) {
  Words words(1);
  for (const char c : lower_case(text))
    if ((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'))
      words.back() += c;
    else if (!words.back().empty())
      words.emplace_back();
  if (words.back().empty()) words.pop_back();
  return words;
}

}  // namespace

TextMetrics text_metrics(std::string_view answer, const std::vector<std::string>& references) {
  FORGE_CHECK(!references.empty(), "an answer has a reference");
  const Words squad = squad_words(answer), rouge = rouge_words(answer);
  TextMetrics best;
  for (const std::string& reference : references) {
    const Words wanted = squad_words(reference), wanted_rouge = rouge_words(reference);
    best.exact_match = std::max(best.exact_match, squad == wanted ? 1.0 : 0.0);
    best.f1 = std::max(best.f1, f1(squad, wanted));
    const auto common = static_cast<double>(longest_common_subsequence(rouge, wanted_rouge));
    best.rouge_l = std::max(best.rouge_l, f_measure(common, rouge.size(), wanted_rouge.size()));
  }
  return best;
}

}  // namespace forge
