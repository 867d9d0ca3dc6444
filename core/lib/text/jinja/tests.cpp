// The tests, as in `x is defined`.
#include <cmath>

#include "core/lib/text/jinja/builtins.h"

namespace forge::jinja {
namespace {

V yes(bool holds) { return V(holds); }

bool has_length_and_items(const V& v) {
  return v.is_text() || v.is_dict() || v.is_undefined() || v.is_indexed();
}

V remainder_is(I& interpreter, const V& self, const V& divisor, int64_t rest) {
  return yes(equal(arithmetic(interpreter, "%", self, divisor), V(rest)));
}

bool all_cased(const V& self, bool (*right)(uint32_t), bool (*wrong)(uint32_t)) {
  const MarkedText text = to_text(self);
  bool any = false;
  for (int64_t offset = 0; offset < text.size();) {
    const uint32_t c = next_code_point(text.bytes, offset);
    if (wrong(c)) return false;
    any |= right(c);
  }
  return any;
}

bool same_object(const V& a, const V& b) {
  if (a.identity() || b.identity())
    return a.identity() == b.identity() || (a.is_text() && b.is_text() && a.bytes() == b.bytes());
  return type_name(a) == type_name(b) && equal(a, b);
}

bool is_iterable(const V& v) {
  return v.is_undefined() || v.is_text() || v.is_sequence() || v.is_dict() || v.is_loop();
}

V test_in(I& interpreter, const V& self, const B& b) {
  interpreter.spend(weight_of(*b[0]) / 4);
  return yes(contains(*b[0], self));
}


V is_eq(I&, const V& s, const B& b) { return yes(equal(s, *b[0])); }
V is_ne(I&, const V& s, const B& b) { return yes(!equal(s, *b[0])); }
V is_lt(I&, const V& s, const B& b) { return yes(compare(s, *b[0]) < 0); }
V is_le(I&, const V& s, const B& b) { return yes(compare(s, *b[0]) <= 0); }
V is_gt(I&, const V& s, const B& b) { return yes(compare(s, *b[0]) > 0); }
V is_ge(I&, const V& s, const B& b) { return yes(compare(s, *b[0]) >= 0); }

constexpr Builtin kTests[] = {
    {"defined", "", 0, [](I&, const V& s, const B&) { return yes(!s.is_undefined()); }},
    {"undefined", "", 0, [](I&, const V& s, const B&) { return yes(s.is_undefined()); }},
    {"none", "", 0, [](I&, const V& s, const B&) { return yes(s.is_none()); }},
    {"string", "", 0, [](I&, const V& s, const B&) { return yes(s.is_text()); }},
    {"mapping", "", 0, [](I&, const V& s, const B&) { return yes(s.is_dict()); }},
    {"iterable", "", 0, [](I&, const V& s, const B&) { return yes(is_iterable(s)); }},
    {"sequence", "", 0, [](I&, const V& s, const B&) { return yes(has_length_and_items(s)); }},
    {"number", "", 0, [](I&, const V& s, const B&) { return yes(s.is_number()); }},
    {"integer", "", 0, [](I&, const V& s, const B&) { return yes(s.is_int()); }},
    {"float", "", 0, [](I&, const V& s, const B&) { return yes(s.is_float()); }},
    {"boolean", "", 0, [](I&, const V& s, const B&) { return yes(s.is_bool()); }},
    {"true", "", 0, [](I&, const V& s, const B&) { return yes(s.is_bool() && s.boolean()); }},
    {"false", "", 0, [](I&, const V& s, const B&) { return yes(s.is_bool() && !s.boolean()); }},
    {"callable", "", 0,
     [](I&, const V& s, const B&) { return yes(s.is_callable() || s.is_undefined() || s.is_loop()); }},
    {"escaped", "", 0, [](I&, const V&, const B&) { return yes(false); }},
    {"odd", "", 0, [](I& i, const V& s, const B&) { return remainder_is(i, s, V(int64_t{2}), 1); }},
    {"even", "", 0,
     [](I& i, const V& s, const B&) { return remainder_is(i, s, V(int64_t{2}), 0); }},
    {"divisibleby", "num", 1,
     [](I& i, const V& s, const B& b) { return remainder_is(i, s, *b[0], 0); }},
    {"upper", "", 0, [](I&, const V& s, const B&) { return yes(all_cased(s, is_upper, is_lower)); }},
    {"lower", "", 0, [](I&, const V& s, const B&) { return yes(all_cased(s, is_lower, is_upper)); }},
    {"in", "seq", 1, test_in},
    {"sameas", "other", 1, [](I&, const V& s, const B& b) { return yes(same_object(s, *b[0])); }},
    {"filter", "", 0, [](I&, const V& s, const B&) { return yes(s.is_text() && find_filter(s.bytes())); }},
    {"test", "", 0, [](I&, const V& s, const B&) { return yes(s.is_text() && find_test(s.bytes())); }},
    {"eq", "other", 1, is_eq},
    {"equalto", "other", 1, is_eq},
    {"==", "other", 1, is_eq},
    {"ne", "other", 1, is_ne},
    {"!=", "other", 1, is_ne},
    {"lt", "other", 1, is_lt},
    {"lessthan", "other", 1, is_lt},
    {"<", "other", 1, is_lt},
    {"le", "other", 1, is_le},
    {"<=", "other", 1, is_le},
    {"gt", "other", 1, is_gt},
    {"greaterthan", "other", 1, is_gt},
    {">", "other", 1, is_gt},
    {"ge", "other", 1, is_ge},
    {">=", "other", 1, is_ge},
};

}  // namespace

std::span<const Builtin> tests() { return kTests; }

}  // namespace forge::jinja
