#include "core/learn/reward/math_node.h"

#include "tests/test.h"

using namespace forge;

namespace {

// Returns "yes", "no", or which side cannot be read.
std::string same(const std::string& reference, const std::string& answer, double tolerance = 0) {
  const std::optional<MathAnswer> a = parse_math(reference), b = parse_math(answer);
  if (!a) return "reference unreadable";
  if (!b) return "answer unreadable";
  return same_math(*a, *b, tolerance) ? "yes" : "no";
}

struct Case {
  const char *reference, *answer;
};

}  // namespace

TEST_CASE("equal answers, however they are written") {
  const Case kEqual[] = {
      {"\\frac{1}{2}", "0.5"},
      {"\\frac12", "\\dfrac{1}{2}"},
      {"1/2", "2/4"},
      {"-\\frac{1}{2}", "\\frac{-1}{2}"},
      {"1,234", "1234"},
      {"1{,}234", "1234"},
      {"\\$5", "5"},
      {"5\\text{ cm}", "5"},
      {"5 \\text{ cm}^2", "5"},
      {"90^\\circ", "90"},
      {"50\\%", "50"},
      {"50\\%", "0.5"},
      {"x=5", "5"},
      {"5", "x = 5"},
      {"x = 2 + 3 = 5", "5"},
      {"\\sqrt{8}", "2\\sqrt{2}"},
      {"\\sqrt[3]{27}", "3"},
      {"\\sqrt2", "2^{1/2}"},
      {"2^{10}", "1024"},
      {"2^10", "1024"},
      {"10^{-2}", "0.01"},
      {"3\\frac{1}{2}", "3.5"},
      {"\\log_2 8", "3"},
      {"\\log_{10} 1000", "3"},
      {"\\ln e", "1"},
      {"\\binom{5}{2}", "10"},
      {"5!", "120"},
      {"|-3|", "3"},
      {"\\left|-3\\right|", "3"},
      {"i^2", "-1"},
      {"1+2i", "2i+1"},
      {"\\sin\\frac{\\pi}{6}", "\\frac{1}{2}"},
      {"\\cos 0", "1"},
      {"\\frac{\\pi}{2}", "1.570796"},
      {"\\frac{1}{3}", "0.333333"},
      {"0.1+0.2", "0.3"},
      {"x^2-1", "(x-1)(x+1)"},
      {"2xy", "y \\cdot 2 \\cdot x"},
      {"\\frac{x}{2}", "0.5x"},
      {"\\sin^2 x + \\cos^2 x", "1"},
      {"e^{x}e^{y}", "e^{x+y}"},
      {"(a+b)^2", "a^2+2ab+b^2"},
      {"\\{1,2\\}", "\\{2,1\\}"},
      {"1,2", "2, 1"},
      {"1 \\text{ and } 2", "2,1"},
      {"\\pm 2", "\\{2,-2\\}"},
      {"2,-2", "\\pm2"},
      {"x = \\pm 2", "2,-2"},
      {"(1,2)", "(1, 2)"},
      {"(1,2)", "\\left( 1, \\frac{4}{2} \\right)"},
      {"(-\\infty,2)\\cup(3,\\infty)", "(3,\\infty)\\cup(-\\infty,2)"},
      {"[0,1)", "[0, 1.0)"},
      {"\\begin{pmatrix}1&2\\\\3&4\\end{pmatrix}", "\\begin{pmatrix} 1 & 2 \\\\ 3 & 4 \\end{pmatrix}"},
      {"y=2x+1", "y = 1+2x"},
      {"x+y=3", "3-x=y"},
      {"x<3", "3>x"},
      {"x \\le 3", "x<=3"},
      {"\\text{Monday}", "monday"},
      {"\\text{A}", "A"},
      {"\\infty", "∞"},
      {"-\\infty", "-\\infty"},
      {"\\emptyset", "\\{\\}"},
      {"x_1", "x_{1}"},
      {"\\frac{\\sqrt{3}}{2}", "\\sqrt{3}/2"},
      {"2\\pi r", "2πr"},
      {"x²", "x^2"},
      {"$\\frac{1}{2}$", "\\(0.5\\)"},
      {"\\lfloor 2.7 \\rfloor", "2"},
      {"123456789012345678901234567890", "123456789012345678901234567890"},
      {"\\mathrm{e}", "e"},
      {"1e3", "e \\cdot 3"},
  };
  for (const auto& [reference, answer] : kEqual) {
    INFO(reference << " and " << answer);
    CHECK(same(reference, answer) == "yes");
    CHECK(same(answer, reference) == "yes");
  }
}

TEST_CASE("different answers that look alike") {
  const Case kDifferent[] = {
      {"\\frac{1}{3}", "0.33"},
      {"0.333", "\\frac13"},
      {"(1,2)", "(2,1)"},
      {"(1,2)", "[1,2]"},
      {"[0,1)", "[0,1]"},
      {"(1,2)", "\\{1,2\\}"},
      {"\\{1,2\\}", "\\{1,2,2\\}"},
      {"\\{1,1,2\\}", "\\{1,2,2\\}"},
      {"1,2", "1"},
      {"\\sqrt{x^2}", "x"},
      {"|x|", "x"},
      {"x", "y"},
      {"x^2", "x^3"},
      {"x<3", "x>3"},
      {"x<3", "x \\le 3"},
      {"y=2x", "y=3x"},
      {"\\infty", "-\\infty"},
      {"\\infty", "10^{100}"},
      {"\\text{Monday}", "\\text{Tuesday}"},
      {"2", "-2"},
      {"\\pm 2", "2"},
      {"10^{100}", "10^{101}"},
      {"123456789012345678901234567890", "123456789012345678901234567891"},
      {"2^{100000}", "3^{100000}"},
      {"5\\%", "500"},
      {"\\frac{1}{0}", "\\frac{2}{0}"},
      {"\\frac{x}{0}", "\\frac{y}{0}"},
      {"\\begin{pmatrix}1&2\\end{pmatrix}", "\\begin{pmatrix}2&1\\end{pmatrix}"},
      {"1e3", "1000"},
  };
  for (const auto& [reference, answer] : kDifferent) {
    INFO(reference << " and " << answer);
    CHECK(same(reference, answer) == "no");
    CHECK(same(answer, reference) == "no");
  }
}

TEST_CASE("what is no answer is not read") {
  for (const char* text : {"", "  ", "the answer is unclear (see above)", "\\frac{1}", "((1)", "1)", "}{",
                           "\\begin{align}x\\end{align}", "\\boxed{5", "5 +", "= 5", "{", "^2", "\\", "|||",
                           "\\sqrt", "1 2 3 abcdefg"}) {
    INFO(text);
    CHECK_FALSE(parse_math(text));
  }
  CHECK_FALSE(parse_math(std::string(kLongestMath + 1, '1')));
}

TEST_CASE("a tolerance is relative") {
  CHECK(same("100", "101", 0.01) == "yes");
  CHECK(same("100", "102", 0.01) == "no");
  CHECK(same("\\pi", "3.14", 0.001) == "yes");
  CHECK(same("\\pi", "3.14") == "no");
}

TEST_CASE("hostile formulas end") {
  std::string deep;
  for (int i = 0; i < 600; ++i) deep += "(";
  CHECK_FALSE(parse_math(deep));
  std::string powers = "9";
  for (int i = 0; i < 300; ++i) powers += "^{9";
  CHECK_FALSE(parse_math(powers + std::string(300, '}')));
  CHECK(same("9^{9^{9^{9}}}", "9^{9^{9^{8}}}") == "no");
  CHECK(same("(((((10^{60})^{60})^{60})^{60})^{60})", "1") == "no");
  std::string sum = "x";
  for (int i = 0; i < 900; ++i) sum += "+x";
  CHECK(same(sum, "901x") == "yes");
  CHECK(same("1e-400!", "1") != "");
  CHECK(same("(10^{18})!", "1") == "no");
  CHECK(same("x!", "x!") != "");
}
