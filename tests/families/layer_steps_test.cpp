// Tests the lines of a described layer: how they are parsed, and faults with their places.
#include <array>

#include "core/lib/base/text.h"
#include "core/model/families/layer_steps.h"
#include "tests/graph/lists_of.h"
#include "tests/test.h"

namespace forge {
namespace {

// A layer that begins in line 10, column 3 of f.yaml.
LayerSteps parsed(const std::string& text) {
  Diagnostics faults;
  LayerSteps layer = parse_layer(text, {"f.yaml", 10, 3}, faults);
  faults.throw_if_any();
  return layer;
}

std::string faults_of(const std::string& text) {
  return error_of([&] { parsed(text); });
}

const std::string kAttention =
    "x = norm(h, n1)\n"
    "q, k, v = linear(x, q: q_width, k: kv_width, v: kv_width)\n"
    "q, k = rope(q, k)\n"
    "m = attention(q, k, v)\n"
    "y = linear(m, o: hidden)\n"
    "h = add(h, y)\n";

struct Case {
  const char* lines;
  const char* fault;
};

}  // namespace

TEST_CASE("lines of a layer are parsed") {
  const LayerSteps layer = parsed(kAttention);
  CHECK(layer.steps.size() == 6);
  CHECK(layer.names == std::vector<std::string>{"h", "x", "q", "k", "v", "m", "y"});
  CHECK(layer.steps[1].at.text() == "f.yaml:11:3");
  CHECK(layer.steps[1].modules[2].name == "v");
  CHECK(faults_of("# nothing\n\n" + kAttention) == "no error");
}

TEST_CASE("a fault of a line has its place and a remedy") {
  const auto all = std::to_array<Case>({
      {"x = nrom(h, n)", "f.yaml:16:7: layer: unknown op \"nrom\" (did you mean \"norm\"?)"},
      {"x = norm(h)", "norm names one module, expected y = norm(x, MODULE)"},
      {"x = norm()", "norm reads 1 value,"},
      {"x = norm(h, a..b)", "is not the name of a module"},
      {"x, y = norm(h, n)", "norm gives 1 value and not 2"},
      {"x = linear(h, a: hiden)",
       "f.yaml:16:20: layer: unknown size \"hiden\", expected a number, a size, or up to 64 times "
       "a size (did you mean \"hidden\"?)"},
      {"x = linear(h, a: 65 hidden)", "unknown size \"65 hidden\""},
      {"x = linear(h, a: 99999999999999999999)", "unknown size"},
      {"x = linear(h, a: )", "a size is missing"},
      {"x = linear(h, a)", "without a colon"},
      {"x = linear(h, a: hidden, bias: qkv_bais)", "unknown flag \"qkv_bais\" of biases"},
      {"x = linear(h, bias: true)", "names no module"},
      {"x, x = linear(h, a: hidden, b: hidden)", "is the name of two results"},
      {"x = norm(norm(h, a), b)", "formulas are not nested"},
      {"x norm h", "expected a formula like"},
      {"x = gated(a, b, sillu)", "unknown function \"sillu\" (did you mean \"silu\"?)"},
      {"x = scale(y, -1)", "unknown factor \"-1\""},
      {"x = scale(y, 1e300)", "unknown factor"},
      {"x = norm(h, n) when qk_norm", "\"when\" follows the formula"},
      {"x = norm(h, n) if qknorm", "unknown flag \"qknorm\" (did you mean \"qk_norm\"?)"},
      {"x = experts(h, router: r, experts: e, gate: g, up: u)", "experts names no down"},
      {"x = experts(h, router: r, routr: e)", "has no part \"routr\""},
      {"2x = norm(h, n)", "is not a name"},
  });
  for (const Case& test : all) {
    INFO(test.lines);
    CHECK_THAT(faults_of(kAttention + test.lines), Catch::Contains(test.fault));
  }
}

TEST_CASE("the values of a layer are followed") {
  const auto all = std::to_array<Case>({
      // Each of the two is made of the other.
      {"a = norm(b, n2)\nb = norm(a, n3)\nh = add(h, b)",
       "f.yaml:16:3: layer: b is read before it is made (line 17 makes it)"},
      {"a = norm(z, n2)\nh = add(h, a)", "z is read, and no line makes it"},
      {"a = norm(h, n2)", "a is never read"},
      {"a = norm(h, n1)\nh = add(h, a)", "the module n1 is named twice"},
      {"a = norm(h, n2)\nb, c = linear(a, e: hidden, f: hidden)\nd = gated(b, c, silu)\nh = add(h, "
       "d)\nh = add(h, c)",
       "c has another reader"},
      {"a = norm(h, n2)\na = scale(h, 2)\nh = add(h, a)",
       "h is the stream, which scale does not read"},
      {"a = norm(h, n2)\nh = add(a, h)", "h is the stream, which add takes first"},
      {"a = norm(h, n2)\nb = linear(a, e: hidden)\nh = add(b, a)",
       "h is not a sum with the h that the layer gets"},
      {"a = norm(h, n2) if qk_norm\nh = add(h, a)",
       "line 16 makes it, but not in every layer that has this line"},
      {"a = norm(h, n2)\nb = linear(a, e: hidden)\nc = gated(b, b, silu)\nh = add(h, c)",
       "gated reads one value twice"},
  });
  for (const Case& test : all) {
    INFO(test.lines);
    CHECK_THAT(faults_of(kAttention + test.lines), Catch::Contains(test.fault));
  }
  CHECK_THAT(faults_of("x = norm(h, n)\ny = linear(x, a: hidden)\n"),
             Catch::Contains("no line makes the new h"));
  CHECK(faults_of(kAttention +
                  "a = norm(h, n2) if qk_norm\na = norm(h, n3) unless qk_norm\nh = add(h, a)") ==
        "no error");
}

TEST_CASE("all faults of a layer are told at once, and many lines end it") {
  const std::string faults =
      faults_of("x = nrom(h, n)\ny = linear(h, a: hiden)\nz = gated(a, b, sillu)\n");
  CHECK(std::count(faults.begin(), faults.end(), '\n') >= 2);
  std::string many;
  for (int i = 0; i < 1000; ++i) many += "h = add(h, y)\n";
  CHECK_THAT(faults_of(many), Catch::Contains("more than 200 lines"));
  CHECK_THAT(faults_of("x = norm(h, " + std::string(600, 'a') + ")"),
             Catch::Contains("longer than 500 characters"));
}

TEST_CASE("widths of a layer are checked against a model's sizes") {
  const ModelSpec spec = tiny();
  const auto fault = [&](const std::string& text) {
    const std::vector<Diagnostic> faults = width_faults(parsed(text), spec, 0);
    return faults.empty() ? std::string() : faults[0].text();
  };
  CHECK(fault(kAttention).empty());
  CHECK_THAT(fault("x = norm(h, n1)\nq, k, v = linear(x, q: kv_width, k: kv_width, v: kv_width)\nm "
                   "= attention(q, k, v)\ny = linear(m, o: hidden)\nh = add(h, y)"),
             Catch::Contains("f.yaml:12:3: layer: attention: q is "));
  CHECK_THAT(fault("x = norm(h, n1)\ny = linear(x, o: intermediate)\nh = add(h, y)"),
             Catch::Contains("the second value is "));
  CHECK_THAT(fault("x = norm(h, n1)\ny = linear(x, o: 64 intermediate + 4194304)\na, b = split(y, "
                   "hidden, hidden)\ny = gated(a, b, silu)\nh = add(h, y)"),
             Catch::Contains("wider than"));
  CHECK_THAT(fault("x = norm(h, n1)\ny = experts(x, router: r, experts: e, gate: g, up: u, down: "
                   "d)\nh = add(h, y)"),
             Catch::Contains("there are no experts"));
}

}  // namespace forge
