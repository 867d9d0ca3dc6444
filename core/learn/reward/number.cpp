#include "core/learn/reward/number.h"

#include <cmath>

#include "core/lib/base/text.h"
#include "core/lib/schema/text_pattern.h"

namespace forge {
namespace {

// The groups of kNumber, in their order.
enum Group {
  kSign = 1,
  kInnerSign,
  kFracWhole,
  kFracTop,
  kFracBottom,
  kFracTopDigit,
  kFracBottomDigit,
  kMixedWhole,
  kMixedTop,
  kMixedBottom,
  kSlashTop,
  kSlashBottom,
  kDecimal,
  kPower,
  kPowerBraced,
  kPowerBare,
  kPercent,
};

#define FORGE_DECIMAL \
  R"((?:(?:\d{1,3}(?:(?:,|\{,\}|\\,|,\\!|\\!,|[\x{A0}\x{2009}\x{202F}])\d{3})++(?!\d)|\d++)(?:\.\d++)?|\.\d++))"

// A minus after a digit, a letter or a bracket is an operator or a hyphen.
constexpr const char* kNumber =
    R"((?:(?<![\p{L}\p{N}_^.)\]}])([-+−]))?)"
    R"((?:\\?[$€£¥₹]\s?([-−])?)?)"
    R"((?<![\p{L}\p{N}_^.])(?<!\^\{)(?<!_\{)(?<!\^-)(?<!\^\{-))"
    R"((?:(?:(\d++)\s*+)?\\[dt]?frac\s*+(?:\{\s*+(-?)" FORGE_DECIMAL R"()\s*+\}\s*+\{\s*+(-?)" FORGE_DECIMAL
    R"()\s*+\}|(\d)\s*+(\d)))"
    R"(|(\d++)\s++(\d++)\s?/\s?(\d++)(?![\d.,]*/))"
    R"(|(?<!\d/)()" FORGE_DECIMAL R"()\s?/\s?()" FORGE_DECIMAL R"()(?!\s?/))"
    R"(|()" FORGE_DECIMAL R"()(?:[eE]([-+]?\d{1,4})(?![\d.\p{L}]))"
    R"(|\s*+(?:\\times|\\cdot|×|·|x|\*)\s*+10\s*+(?:\^|\*\*)\s*+(?:\{\s*+([-+−]?\d{1,4})\s*+\}|([-+−]?\d{1,4})))?))"
    R"((\s*+\\?%|\s++percent\b)?)";

#undef FORGE_DECIMAL

const TextPattern& number_pattern() {
  static const TextPattern pattern(kNumber, "");
  return pattern;
}

std::string plain_digits(std::string_view text) {
  std::string plain;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if ((c >= '0' && c <= '9') || c == '.' || c == '-' || c == '+') plain += c;
    if (starts_with(text.substr(i), "−")) plain += '-';  // U+2212
  }
  return plain;
}

std::optional<Fraction> decimal(const std::optional<std::string_view>& group) {
  return group ? parse_decimal(plain_digits(*group)) : std::nullopt;
}

std::optional<Fraction> ratio(const std::optional<Fraction>& top, const std::optional<Fraction>& bottom) {
  return top && bottom ? divide(*top, *bottom) : std::nullopt;
}

std::optional<Fraction> mixed(const std::optional<Fraction>& whole, const std::optional<Fraction>& part) {
  return whole && part ? std::optional(add(*whole, *part)) : part;
}

std::optional<Number> number_of(const TextMatch& match) {
  const auto group = [&](Group g) -> std::optional<std::string_view> {
    return static_cast<size_t>(g) < match.size() ? match[g] : std::nullopt;
  };
  const auto power = [&] {
    for (Group g : {kPower, kPowerBraced, kPowerBare})
      if (group(g)) return plain_digits(*group(g));
    return std::string();
  };
  const auto ratio_of = [&](Group top, Group bottom) {
    return ratio(decimal(group(top)), decimal(group(bottom)));
  };
  std::optional<Fraction> value;
  if (group(kFracTop)) {
    value = mixed(decimal(group(kFracWhole)), ratio_of(kFracTop, kFracBottom));
  } else if (group(kFracTopDigit)) {
    value = mixed(decimal(group(kFracWhole)), ratio_of(kFracTopDigit, kFracBottomDigit));
  } else if (group(kMixedTop)) {
    value = mixed(decimal(group(kMixedWhole)), ratio_of(kMixedTop, kMixedBottom));
  } else if (group(kSlashTop)) {
    value = ratio_of(kSlashTop, kSlashBottom);
  } else if (group(kDecimal)) {
    const std::string exponent = power();
    value = parse_decimal(plain_digits(*group(kDecimal)) + (exponent.empty() ? "" : "e" + exponent));
  }
  if (!value) return std::nullopt;
  const auto minus = [&](Group g) { return group(g) && !group(g)->empty() && *group(g) != "+"; };
  if (minus(kSign) != minus(kInnerSign)) value->negative = !value->negative;
  return Number{std::move(*value), group(kPercent).has_value()};
}

std::string replaced(const std::string& text, const TextPattern& pattern, const char* by) {
  std::string out;
  std::string_view rest = text;
  while (const std::optional<TextMatch> match = pattern.search(rest)) {
    const std::string_view whole = *match->at(0);
    if (whole.empty()) break;
    out.append(rest.data(), whole.data());
    out += by;
    rest.remove_prefix(static_cast<size_t>(whole.data() - rest.data()) + whole.size());
  }
  return out.append(rest);
}

// Returns a value without its layout: units in \text, degrees, math delimiters.
std::string bare(std::string_view text) {
  static const TextPattern kUnit(
      R"(\\(?:text|textrm|textbf|textit|mathrm|mathbf|mbox|operatorname)\s*+\{[^{}]*+\}(?:\^(?:\d|\{[^{}]*+\}))?)",
      "");
  static const TextPattern kSetting(
      R"(\^\s*+\{?\s*+\\circ\s*+\}?|\\degree|°|\\left|\\right|\\[!;:,() ]|\\?\$|\*\*)", "");
  static const TextPattern kRelation(R"(.*(?:=|\\approx|≈|\\boxed))", "");
  std::string plain = replaced(std::string(text), kUnit, " ");
  // Thin spaces between digits separate thousands.
  static const TextPattern kThousands(R"((?<=\d)(?:\\,|\{,\}|,\\!|\\!,)(?=\d{3}(?!\d)))", "");
  plain = replaced(plain, kThousands, ",");
  plain = replaced(plain, kSetting, "");
  return std::string(trim(replaced(plain, kRelation, "")));
}

constexpr size_t kLongestWhole = 4096;  // bytes of what may be one number

}  // namespace

std::optional<Number> first_number(std::string_view text) {
  const std::optional<TextMatch> match = number_pattern().search(text);
  return match ? number_of(*match) : std::nullopt;
}

std::optional<Number> last_number(std::string_view text) {
  const std::optional<TextMatch> match = number_pattern().last(text);
  return match ? number_of(*match) : std::nullopt;
}

std::optional<Number> whole_number(std::string_view text) {
  // A single letter is a unit only if it is not a usual name of an unknown.
  static const TextPattern kBefore(R"([\p{L}\s:,'({]*+)", "");
  static const TextPattern kBehind(
      R"([\s)}.,:;]*+(?:(?:\p{L}{2,}+|[mgslLhKCFVWAJNkt](?!\p{L}))(?:\^?\{?-?\d\}?)?[\s./,)}]*+){0,8}+)", "");
  if (text.size() > kLongestWhole) return std::nullopt;
  const std::string plain = bare(text);
  const std::optional<TextMatch> match = number_pattern().search(plain);
  if (!match) return std::nullopt;
  const std::string_view whole = *match->at(0), all = plain;
  const auto begin = static_cast<size_t>(whole.data() - all.data());
  const bool alone = kBefore.full(all.substr(0, begin)) && kBehind.full(all.substr(begin + whole.size()));
  return alone ? number_of(*match) : std::nullopt;
}

bool same_number(const Number& reference, const Number& answer, double tolerance) {
  static const Fraction kHundred = *parse_decimal("100");
  const auto same = [&](const Fraction& a, const Fraction& b) {
    if (a == b) return true;
    if (tolerance <= 0) return false;
    const long double wanted = a.approximate();
    return std::abs(b.approximate() - wanted) <= static_cast<long double>(tolerance) * std::abs(wanted);
  };
  if (same(reference.value, answer.value)) return true;
  if (reference.percent == answer.percent) return false;
  return reference.percent ? same(*divide(reference.value, kHundred), answer.value)
                           : same(reference.value, *divide(answer.value, kHundred));
}

}  // namespace forge
