// Numbers in the forms that models write. hard_cases_test.cpp compares with math-verify 0.9 and
// GSM8K's rule.
#include "core/learn/reward/number.h"

#include "core/lib/base/text.h"
#include "tests/test.h"

using namespace forge;

namespace {

std::string shown(const std::optional<Number>& number) {
  if (!number) return "none";
  return format_number(static_cast<double>(number->value.approximate())) + (number->percent ? "%" : "");
}
std::string last(const std::string& text) { return shown(last_number(text)); }
std::string whole(const std::string& text) { return shown(whole_number(text)); }

}  // namespace

TEST_CASE("fractions are exact at any length") {
  const auto value = [](const char* text) { return *parse_decimal(text); };
  CHECK(value("0.1") == *divide(value("1"), value("10")));
  CHECK(add(value("0.1"), value("0.2")) == value("0.3"));
  CHECK(add(value("1"), value("-1000000000000000000000")) == value("-999999999999999999999"));
  CHECK(add(value("-0.5"), value("0.5")) == value("0"));
  CHECK(value("123456789012345678901234567890") == value("1.2345678901234567890123456789e29"));
  CHECK_FALSE(value("123456789012345678901234567890") == value("123456789012345678901234567891"));
  CHECK(multiply(value("-1.5"), value("2e-3")) == value("-0.003"));
  CHECK(value("-0") == value("0"));
  CHECK_FALSE(divide(value("1"), value("0")));
  CHECK(value("1e-1000").approximate() == Approx(0));
  CHECK(std::abs(value("12345678901234567890123456789012345678901234567890").approximate() /
                     1.2345678901234567890e49L -
                 1) < 1e-15L);
  for (const char* bad : {"", "-", ".", "1.2.3", "1e", "1e+", "e5", "1e99999", "0x10", "١٢"})
    CHECK_FALSE(parse_decimal(bad));
  CHECK_FALSE(parse_decimal(std::string(kMostDigits + 1, '1')));
}

TEST_CASE("the last number of a text") {
  CHECK(last("6 * 7 = 42 apples") == "42");
  CHECK(last("The total is $1,234,567.50.") == "1234567.5");
  CHECK(last("x = -5") == "-5");
  CHECK(last("\\(-5\\)") == "-5");
  CHECK(last("minus sign −5") == "-5");
  CHECK(last("-$5 or $-5") == "-5");
  CHECK(last("5 - 3") == "3");
  CHECK(last("10-20") == "20");
  CHECK(last("1{,}000 and 2\\,000") == "2000");
  CHECK(last("about 50 %") == "50%");
  CHECK(last("about 50\\%") == "50%");
  CHECK(last("50 percent") == "50%");
  CHECK(last("the ratio 3/4") == "0.75");
  CHECK(last("3 1/2 cups") == "3.5");
  CHECK(last("-\\frac{3}{4}") == "-0.75");
  CHECK(last("3\\frac12") == "3.5");
  CHECK(last("1.5e3") == "1500");
  CHECK(last("1.2 \\times 10^{5}") == "120000");
  CHECK(last("1.2 × 10^-2") == "0.012");
  CHECK(last(".5") == "0.5");
  CHECK(last("42.") == "42");
  CHECK(last("42 cm^2") == "42");
  CHECK(last("the 3rd of H2O") == "3");
  CHECK(last("no number, only words and x2") == "none");
  CHECK(last("") == "none");
  CHECK(last("1/0") == "none");
  CHECK(last("1,2,3") == "3");
  CHECK(last("2024/01/31") == "31");
}

TEST_CASE("a text that is one number, with its name and unit") {
  CHECK(whole("42") == "42");
  CHECK(whole(" $42.00 ") == "42");
  CHECK(whole("x = 42\\text{ cm}^2") == "42");
  CHECK(whole("42 km/h") == "42");
  CHECK(whole("42\\%") == "42%");
  CHECK(whole("90^\\circ") == "90");
  CHECK(whole("\\$1,\\!000") == "1000");
  CHECK(whole("\\frac{1}{2}") == "0.5");
  CHECK(whole("72 apples.") == "72");
  CHECK(whole("**7**") == "7");
  for (const char* other :
       {"2^{10}", "\\sqrt{2}", "2x", "3, 4", "(1,2)", "1 + 1", "2*3", "x", "", "5!", "5 or 6", "10^3"}) {
    INFO(other);
    CHECK(whole(other) == "none");
  }
  CHECK(whole(std::string(5000, '1')) == "none");
}

TEST_CASE("numbers are the same exactly, as a percentage, or within a tolerance") {
  const auto same = [](const char* a, const char* b, double tolerance = 0) {
    return same_number(*whole_number(a), *whole_number(b), tolerance);
  };
  CHECK(same("0.5", "1/2"));
  CHECK(same("1/3", "2/6"));
  CHECK_FALSE(same("1/3", "0.3333333333333333333333"));
  CHECK_FALSE(same("0.1", "0.10000000000000000000001"));
  CHECK(same("50%", "50"));
  CHECK(same("50%", "0.5"));
  CHECK(same("0.5", "50%"));
  CHECK_FALSE(same("50%", "0.5%"));
  CHECK_FALSE(same("50", "0.5"));
  CHECK(same("100", "101", 0.01));
  CHECK_FALSE(same("100", "101.1", 0.01));
  CHECK(same("-100", "-101", 0.01));
  CHECK_FALSE(same("0", "0.001", 0.01));
  CHECK(same("-0", "0"));
}

TEST_CASE("long and hostile texts are read in bounded time") {
  const std::string digits(1 << 20, '7'), commas = [] {
    std::string text = "1";
    for (int i = 0; i < 200'000; ++i) text += ",234";
    return text;
  }();
  CHECK(last(digits) == "none");  // longer than any number that is read
  CHECK(last(digits + " 5") == "5");
  CHECK(last(commas + " 6") == "6");
  std::string spaces(1 << 20, ' ');
  CHECK(last("3" + spaces + "4") == "4");
  std::string slashes;
  for (int i = 0; i < 100'000; ++i) slashes += "1/";
  CHECK(last(slashes + "x 8") == "8");
}
