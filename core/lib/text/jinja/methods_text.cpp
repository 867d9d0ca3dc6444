// Methods of str.
#include <algorithm>

#include "core/lib/text/jinja/builtins.h"
#include "core/lib/text/jinja/text_operations.h"

namespace forge::jinja {
namespace {

template <bool left, bool right>
V strip(I& interpreter, const V& self, const B& b) {
  const std::string* set = b.given(0) ? &b.text(0).bytes : nullptr;
  interpreter.spend(self.text().size() / 16 * (set ? 1 + static_cast<int64_t>(set->size()) : 1));
  return V(stripped(self.text(), set, left, right));
}

// Returns the parts between runs of whitespace, as split() without separator does.
std::vector<V> split_blanks(const MarkedText& text, int64_t limit) {
  std::vector<V> parts;
  int64_t at = 0;
  for (;;) {
    const MarkedText rest = stripped(text.slice(at, text.size()), nullptr, true, false);
    at = text.size() - rest.size();
    if (at >= text.size()) return parts;
    if (limit-- == 0) {
      parts.push_back(V(rest));
      return parts;
    }
    int64_t end = at;
    for (int64_t next = at; next < text.size(); end = next)
      if (is_space(next_code_point(text.bytes, next))) break;
    parts.push_back(V(text.slice(at, end)));
    at = end;
  }
}

std::vector<V> split_blanks_from_right(const MarkedText& text, int64_t limit) {
  std::vector<V> parts;
  MarkedText rest = stripped(text, nullptr, false, true);
  while (rest.size() > 0) {
    if (limit-- == 0) {
      parts.push_back(V(rest));
      break;
    }
    int64_t word = 0;
    for (int64_t offset = 0; offset < rest.size();)
      if (is_space(next_code_point(rest.bytes, offset))) word = offset;
    parts.push_back(V(rest.slice(word, rest.size())));
    rest = stripped(rest.slice(0, word), nullptr, false, true);
  }
  std::reverse(parts.begin(), parts.end());
  return parts;
}

V split(I& interpreter, const V& self, const B& b) {
  const MarkedText& text = self.text();
  interpreter.spend_text(text.size());
  int64_t limit = b.integer(1, -1);
  if (!b.given(0)) {
    interpreter.spend(text.size());
    return list_of(split_blanks(text, limit));
  }
  const MarkedText& separator = b.text(0);
  if (separator.size() == 0) fault("empty separator");
  std::vector<V> parts;
  int64_t at = 0;
  for (; limit != 0; --limit) {
    const size_t found = text.bytes.find(separator.bytes, static_cast<size_t>(at));
    if (found == std::string::npos) break;
    interpreter.spend(1);
    parts.push_back(V(text.slice(at, static_cast<int64_t>(found))));
    at = static_cast<int64_t>(found) + separator.size();
  }
  parts.push_back(V(text.slice(at, text.size())));
  return list_of(std::move(parts));
}

V rsplit(I& interpreter, const V& self, const B& b) {
  const MarkedText& text = self.text();
  interpreter.spend_text(text.size());
  int64_t limit = b.integer(1, -1);
  if (!b.given(0)) {
    if (limit < 0) return split(interpreter, self, b);
    interpreter.spend(text.size() * (1 + std::min<int64_t>(limit, text.size())));
    return list_of(split_blanks_from_right(text, limit));
  }
  const MarkedText& separator = b.text(0);
  if (separator.size() == 0) fault("empty separator");
  std::vector<V> parts;
  int64_t end = text.size();
  for (; limit != 0 && end >= separator.size(); --limit) {
    const size_t found = std::string_view(text.bytes).substr(0, end).rfind(separator.bytes);
    if (found == std::string::npos) break;
    interpreter.spend(1);
    parts.push_back(V(text.slice(static_cast<int64_t>(found) + separator.size(), end)));
    end = static_cast<int64_t>(found);
  }
  parts.push_back(V(text.slice(0, end)));
  std::reverse(parts.begin(), parts.end());
  return list_of(std::move(parts));
}

template <bool from_right>
V partition(I& interpreter, const V& self, const B& b) {
  const MarkedText &text = self.text(), &separator = b.text(0);
  if (separator.size() == 0) fault("empty separator");
  interpreter.spend_text(text.size());
  const size_t found =
      from_right ? text.bytes.rfind(separator.bytes) : text.bytes.find(separator.bytes);
  std::vector<V> parts(3, V::text(""));
  if (found == std::string::npos) {
    parts[from_right ? 2 : 0] = V(text);
  } else {
    const auto at = static_cast<int64_t>(found);
    parts = {V(text.slice(0, at)), V(text.slice(at, at + separator.size())),
             V(text.slice(at + separator.size(), text.size()))};
  }
  return V::list(std::move(parts), SequenceKind::tuple);
}

// Sets begin and end of the part that find, count and startswith search, as byte offsets. Returns
// false for an empty part beyond the text.
bool window(const V& self, const B& b, int64_t& begin, int64_t& end) {
  const int64_t count = count_characters(self.bytes());
  const auto offset = [&](size_t index, int64_t otherwise) {
    const int64_t at = b.given(index) ? b.integer(index, otherwise) : otherwise;
    return at < 0 ? std::max<int64_t>(at + count, 0) : at;
  };
  const int64_t first = offset(1, 0), last = std::min(offset(2, count), count);
  begin = byte_offset(self.bytes(), first);
  end = byte_offset(self.bytes(), last);
  return first <= last;
}

bool has_affix(const V& self, const B& b, const V& wanted, bool at_end) {
  if (wanted.is_sequence(SequenceKind::tuple))
    return std::any_of(wanted.items().begin(), wanted.items().end(),
                       [&](const V& one) { return has_affix(self, b, one, at_end); });
  if (wanted.is_undefined()) undefined_fault(wanted);
  if (!wanted.is_text())
    fault(std::string(at_end ? "endswith" : "startswith") + " first arg must be str or a tuple of str, not " +
          type_name(wanted));
  int64_t begin = 0, end = 0;
  if (!window(self, b, begin, end)) return false;
  const std::string_view part = std::string_view(self.bytes()).substr(begin, end - begin);
  return at_end ? part.ends_with(wanted.bytes()) : part.starts_with(wanted.bytes());
}

template <bool at_end>
V affix(I&, const V& self, const B& b) {
  return V(has_affix(self, b, *b[0], at_end));
}

template <bool from_right>
V find(I& interpreter, const V& self, const B& b) {
  interpreter.spend_text(self.text().size());
  int64_t begin = 0, end = 0;
  if (!window(self, b, begin, end)) return V(int64_t{-1});
  const std::string_view part = std::string_view(self.bytes()).substr(0, end);
  size_t found = from_right ? part.rfind(b.text(0).bytes) : part.find(b.text(0).bytes, begin);
  if (found == std::string_view::npos || static_cast<int64_t>(found) < begin) return V(int64_t{-1});
  return V(count_characters(part.substr(0, found)));
}

template <bool from_right>
V index(I& interpreter, const V& self, const B& b) {
  const V found = find<from_right>(interpreter, self, b);
  if (found.integer() < 0) fault("substring not found");
  return found;
}

V count(I& interpreter, const V& self, const B& b) {
  interpreter.spend_text(self.text().size());
  const std::string& word = b.text(0).bytes;
  int64_t begin = 0, end = 0, total = 0;
  if (!window(self, b, begin, end)) return V(int64_t{0});
  const std::string_view part = std::string_view(self.bytes()).substr(0, end);
  if (word.empty()) return V(count_characters(part.substr(begin)) + 1);
  for (size_t at = part.find(word, begin); at != std::string_view::npos;
       at = part.find(word, at + word.size()))
    ++total;
  return V(total);
}

V join(I& interpreter, const V& self, const B& b) {
  std::vector<MarkedText> parts;
  for (const V& item : walk(interpreter, *b[0])) {
    if (!item.is_text())
      fault("sequence item " + std::to_string(parts.size()) + ": expected str instance, " + type_name(item) +
            " found");
    parts.push_back(item.text());
  }
  return V(joined(interpreter, self.text(), parts));
}

// Implements str.title: a letter after a non-letter is titlecased, every other lowered.
V title(I& interpreter, const V& self, const B&) {
  interpreter.spend_text(8 * self.text().size());
  return V(mapped(self.text(), [inside = false](uint32_t c) mutable {
    return std::exchange(inside, is_upper(c) || is_lower(c)) ? to_lower(c) : to_title(c);
  }));
}

V swapcase(I& interpreter, const V& self, const B&) {
  interpreter.spend_text(self.text().size());
  return V(mapped(self.text(), [](uint32_t c) { return is_upper(c) ? to_lower(c) : to_upper(c); }));
}

// True if `holds` says so of every character; an empty text gives `of_empty`.
template <bool (*holds)(uint32_t), bool of_empty = false>
V all_are(I&, const V& self, const B&) {
  const std::string& bytes = self.bytes();
  for (int64_t offset = 0; offset < static_cast<int64_t>(bytes.size());)
    if (!holds(next_code_point(bytes, offset))) return V(false);
  return V(of_empty || !bytes.empty());
}

bool is_alphanumeric(uint32_t c) { return is_alpha(c) || is_digit(c); }
bool is_ascii(uint32_t c) { return c < 0x80; }

V cased(I& interpreter, const V& self, const char* test) { return V(interpreter.apply_test(test, self, {})); }

MarkedText fill_of(const B& b) {
  if (!b.has(1)) return {" ", kFromTemplate};
  if (count_characters(b.text(1).bytes) != 1)
    fault("The fill character must be exactly one character long");
  return b.text(1);
}

template <Padding where>
V justify(I& interpreter, const V& self, const B& b) {
  return V(padded(interpreter, self.text(), b.integer(0, 0), fill_of(b), where));
}

V zfill(I& interpreter, const V& self, const B& b) {
  const std::string& bytes = self.bytes();
  const bool sign = !bytes.empty() && (bytes[0] == '+' || bytes[0] == '-');
  const MarkedText digits = self.text().slice(sign, self.text().size());
  TextBuilder out;
  out.add(self.text(), 0, sign);
  out.add(
      padded(interpreter, digits, b.integer(0, 0) - sign, {"0", kFromTemplate}, Padding::before));
  return V(out.take());
}

V lines(I& interpreter, const V& self, const B& b) {
  interpreter.spend(self.text().size());
  std::vector<V> items;
  for (MarkedText& line : split_lines(self.text(), b.flag(0, false))) items.push_back(V(std::move(line)));
  return list_of(std::move(items));
}

template <bool at_end>
V without(I&, const V& self, const B& b) {
  const MarkedText &text = self.text(), &word = b.text(0);
  const int64_t begin = at_end ? text.size() - word.size() : 0;
  if (word.size() == 0 || begin < 0 || text.bytes.compare(begin, word.size(), word.bytes) != 0) return self;
  return V(at_end ? text.slice(0, begin) : text.slice(word.size(), text.size()));
}

template <MarkedText (*change)(const MarkedText&)>
V changed(I& interpreter, const V& self, const B&) {
  interpreter.spend_text(self.text().size());
  return V(change(self.text()));
}

constexpr Builtin kTextMethods[] = {
    {"strip", "chars", 0, strip<true, true>},
    {"lstrip", "chars", 0, strip<true, false>},
    {"rstrip", "chars", 0, strip<false, true>},
    {"split", "sep maxsplit", 0, split},
    {"rsplit", "sep maxsplit", 0, rsplit},
    {"partition", "sep", 1, partition<false>},
    {"rpartition", "sep", 1, partition<true>},
    {"splitlines", "keepends", 0, lines},
    {"startswith", "prefix start end", 1, affix<false>},
    {"endswith", "suffix start end", 1, affix<true>},
    {"removeprefix", "prefix", 1, without<false>},
    {"removesuffix", "suffix", 1, without<true>},
    {"replace", "old new count", 2,
     [](I& i, const V& s, const B& b) {
       return V(replaced(i, s.text(), b.text(0), b.text(1), b.integer(2, -1)));
     }},
    {"join", "iterable", 1, join},
    {"find", "sub start end", 1, find<false>},
    {"rfind", "sub start end", 1, find<true>},
    {"index", "sub start end", 1, index<false>},
    {"rindex", "sub start end", 1, index<true>},
    {"count", "sub start end", 1, count},
    {"upper", "", 0, changed<upper>},
    {"lower", "", 0, changed<lower>},
    {"casefold", "", 0, changed<lower>},
    {"capitalize", "", 0, changed<capitalized>},
    {"title", "", 0, title},
    {"swapcase", "", 0, swapcase},
    {"isdigit", "", 0, all_are<is_digit>},
    {"isdecimal", "", 0, all_are<is_digit>},
    {"isnumeric", "", 0, all_are<is_numeric>},
    {"isalpha", "", 0, all_are<is_alpha>},
    {"isalnum", "", 0, all_are<is_alphanumeric>},
    {"isspace", "", 0, all_are<is_space>},
    {"isprintable", "", 0, all_are<is_printable, true>},
    {"isascii", "", 0, all_are<is_ascii, true>},
    {"isupper", "", 0, [](I& i, const V& s, const B&) { return cased(i, s, "upper"); }},
    {"islower", "", 0, [](I& i, const V& s, const B&) { return cased(i, s, "lower"); }},
    {"zfill", "width", 1, zfill},
    {"ljust", "width fillchar", 1, justify<Padding::behind>},
    {"rjust", "width fillchar", 1, justify<Padding::before>},
    {"center", "width fillchar", 1, justify<Padding::around>},
    {"format", "*", 0,
     [](I& i, const V& s, const B& b) { return V(brace_format(i, s.text(), b.raw)); }},
};

}  // namespace

std::span<const Builtin> text_methods() { return kTextMethods; }

}  // namespace forge::jinja
