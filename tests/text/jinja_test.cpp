// Compares the template language with goldens from jinja2, and tests its limits.
#include <ctime>

#include "core/lib/base/file.h"
#include "core/lib/base/random.h"
#include "core/lib/text/chat_template.h"
#include "core/lib/text/jinja/template.h"
#include "tests/test.h"

namespace forge {
namespace {

using jinja::Template;

const std::string kGoldens = std::string(FORGE_SOURCE_DIR) + "/tests/text/goldens/";
constexpr int64_t kNow = 1'700'000'000;  // that of make_template_goldens.py

Json golden(const std::string& name) {
  return Json::parse(read_file(kGoldens + name, 1 << 24, ErrorKind::environment));
}

jinja::Variables variables_of(const Json& json) {
  jinja::Variables variables;
  for (const auto& [name, value] : json.items()) variables.emplace_back(name, jinja::value_of_json(value));
  return variables;
}

std::string rendered(const std::string& source, const jinja::Variables& variables = {}) {
  return Template::parse(source, "t").render(variables, {}, kNow).bytes;
}

struct Outcome {
  std::string text, error;
};

Outcome outcome(const std::string& source, const jinja::Variables& variables = {}) {
  try {
    return {rendered(source, variables), ""};
  } catch (const Error& error) {
    return {"", error.what()};
  }
}

}  // namespace

TEST_CASE("expressions and statements print what jinja2 prints, and fail where it fails") {
  setenv("TZ", "UTC", 1);
  const Json goldens = golden("expressions.json");
  const jinja::Variables variables = variables_of(goldens["variables"]);
  REQUIRE(goldens["cases"].size() > 1500);
  for (const Json& test : goldens["cases"]) {
    const Outcome got = outcome(test["template"], variables);
    INFO(test.dump() << "\ngot " << got.text << got.error);
    if (test.contains("error"))
      CHECK(!got.error.empty());
    else
      CHECK((got.error.empty() && got.text == test["output"].get<std::string>()));
  }
}

TEST_CASE("errors carry the template's name and the line") {
  CHECK(error_of([] { rendered("a\n{{ x.y }}"); }) == "t:2: 'x' is undefined");
  CHECK(error_of([] { rendered("\n\n{{ raise_exception('no ' ~ 1) }}"); }) == "t:3: no 1");
  CHECK(error_of([] {
          Template::parse("{% if x %}\n", "file.jinja");
        }).find("file.jinja:1: Unexpected end of template") == 0);
  CHECK(error_of([] {
          rendered("{% macro m() %}\n\n{{ none.x.y }}{% endmacro %}\n\n{{ m() }}");
        }).find("t:3: ") == 0);
  CHECK(error_of([] { rendered("{{ 4611686018427387904 * 2 }}"); }) ==
        "t:1: an integer result does not fit 64 bits");
  CHECK(error_of([] {
          rendered("{% for i in [1] recursive %}{% endfor %}");
        }).find("recursive loops are not supported") != std::string::npos);
}

// Each of these templates would run forever, exhaust memory or overflow the stack.
TEST_CASE("hostile templates end with an error, soon") {
  std::string deep_parentheses(100'000, '('), deep_not, long_sum = "{{ 1", many_ifs, deep_list(100'000, '[');
  for (int i = 0; i < 50'000; ++i) deep_not += "not ", long_sum += "+1", many_ifs += "{% if 1 %}";
  const std::vector<std::string> templates{
      "{% for a in range(100000) %}{% for b in range(100000) %}{% endfor %}{% endfor %}",
      "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
      "{% macro m() %}{{ m() }}{{ m() }}{% endmacro %}{{ m() }}",
      "{{ 'a' * 10000000000 }}",
      "{{ [1] * 10000000000 }}",
      "{{ range(10000000000) }}",
      "{% set ns = namespace(s='aaaaaaaaaaaaaaaa') %}{% for i in range(100) %}{% set ns.s = ns.s ~ ns.s %}{% "
      "endfor %}",
      "{% set ns = namespace(s='aaaaaaaaaaaaaaaa') %}{% for i in range(100) %}{% set ns.s = ns.s + ns.s %}{% "
      "endfor %}",
      "{% set ns = namespace(s='aa') %}{% for i in range(100) %}{% set ns.s = ns.s.replace('a', 'aa') %}{% "
      "endfor %}",
      "{% set ns = namespace(s='aa') %}{% for i in range(100) %}{% set ns.s = ns.s|replace('', ns.s) %}{% "
      "endfor %}",
      "{% set ns = namespace(s='ab') %}{% for i in range(100) %}{% set ns.s = ns.s.join(ns.s|list) %}{% "
      "endfor %}",
      "{% set ns = namespace(s='ab') %}{% for i in range(100) %}{% set ns.s = '%s%s' % (ns.s, ns.s) %}{% "
      "endfor %}",
      "{% set ns = namespace(s='ab') %}{% for i in range(100) %}{% set ns.s = '{0}{0}'.format(ns.s) %}{% "
      "endfor %}",
      "{% set ns = namespace(x=[]) %}{% for i in range(100000) %}{% set ns.x = [ns.x] %}{% endfor %}",
      "{% set ns = namespace(x=[1]) %}{% for i in range(90) %}{% set ns.x = [ns.x, ns.x] %}{% endfor %}{{ "
      "ns.x }}",
      "{% set ns = namespace(x=[1]) %}{% for i in range(90) %}{% set ns.x = {'a': ns.x, 'b': ns.x} %}{% "
      "endfor %}{{ ns.x|tojson }}",
      "{% set ns = namespace(x=[1]) %}{% for i in range(90) %}{% set ns.x = ns.x + ns.x %}{% endfor %}{{ "
      "ns.x|length }}",
      "{% set ns = namespace() %}{% set ns.x = ns %}{{ ns }}",
      "{% set ns = namespace() %}{% for i in range(100000) %}{% set ns.x = namespace(x=ns.x) %}{% endfor "
      "%}{{ ns }}",
      "{{ '%1000000000d' % 1 }}",
      "{{ '{:1000000000}'.format(1) }}",
      "{{ 'a'.center(10000000000) }}",
      "{{ 'a'.zfill(10000000000) }}",
      "{{ 'a'|indent(10000000000) }}",
      "{{ '%.1000000000f' % 1.5 }}",
      "{{ range(100000)|batch(1000000000, 'x')|list }}",
      "{{ [1]|slice(1000000000)|list }}",
      "{{ strftime_now('%c' * 100000) }}",
      "{% for i in range(100000) %}{% macro m() %}{% endmacro %}{% endfor %}",
      "{% set ns = namespace(m=none) %}{% macro a() %}{% macro b() %}{{ ns.m() }}{% endmacro %}{% set ns.m = "
      "b %}{{ b() }}{% endmacro %}{{ a() }}",
      "{% macro m(x) %}{{ caller() }}{% endmacro %}{% macro r() %}{% call m() %}{{ r() }}{% endcall %}{% "
      "endmacro %}{{ r() }}",
      "{{ range(100000)|sort|map('string')|join|list|sort|join|list|sort|join|list|sort|length * 'x'|nope }}",
      "{{ " + deep_parentheses,
      "{{ " + deep_list,
      "{{ " + deep_not + "1 }}",
      "{{ " + std::string(100'000, '-') + "1 }}",
      "{{ a" + std::string(100'000, '.') + " }}",
      long_sum + " }}",
      many_ifs,
  };
  for (const std::string& source : templates) {
    const std::clock_t begin = std::clock();  // processor time, so that a busy machine does not fail the test
    const Outcome got = outcome(source);
    const double seconds = static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
    INFO(source.substr(0, 200) << "\n" << got.error << "\n" << seconds << " s");
    CHECK((!got.error.empty() || source.find("{{ ns }}") != std::string::npos));
    CHECK(seconds < 5);  // milliseconds to a second when optimised; sanitizers take their time
  }
}

TEST_CASE("text remembers whether it came from the data") {
  const auto marked = [](const std::string& source) {
    const jinja::MarkedText text =
        Template::parse(source, "t")
            .render({{"user", jinja::Value::text("ab cd", jinja::kFromData)},
                     {"list", jinja::value_of_json(Json::parse(R"(["x", {"k": "v"}])"))}});
    std::string shown;  // data in upper case brackets
    int64_t begin = 0;
    for (const jinja::MarkedRun& run : text.runs) {
      const std::string piece = text.bytes.substr(begin, run.end - begin);
      shown += run.mark & jinja::kFromData ? "<" + piece + ">" : piece;
      begin = run.end;
    }
    return shown;
  };
  CHECK(marked("a{{ user }}b") == "a<ab cd>b");
  CHECK(marked("{{ '[' ~ user ~ ']' }}") == "[<ab cd>]");
  CHECK(marked("{{ ('x' + user + 'y')[1:4] }}") == "<ab >");
  CHECK(marked("{{ ('x' + user + 'y')|upper }}") == "X<AB CD>Y");
  CHECK(marked("{{ user.split(' ')|join('-') }}") == "<ab>-<cd>");
  CHECK(marked("{{ user|replace('b', '*') }}") == "<a>*< cd>");
  CHECK(marked("{{ (' ' ~ user ~ ' ')|trim }}") == "<ab cd>");
  CHECK(marked("{{ user|tojson }}") == "<\"ab cd\">");
  CHECK(marked("{{ list|tojson }}") == "<[\"x\", {\"k\": \"v\"}]>");
  CHECK(marked("{{ {'role': user}|tojson }}") == "{\"role\": <\"ab cd\">}");
  CHECK(marked("{{ '%s!' % user }}{{ '{}?'.format(user) }}") == "<ab cd>!<ab cd>?");
  CHECK(marked("{% set x %}[{{ user }}]{% endset %}{{ x }}") == "[<ab cd>]");
  CHECK(marked("{% macro m(t) %}({{ t.title() }}){% endmacro %}{{ m(user) }}") == "(<Ab Cd>)");
  CHECK(marked("{{ user|indent(2, true) }}") == "  <ab cd>");
}

// Every mutation of every bundled template and snippet either renders or ends with an Error that
// names the place.
TEST_CASE("mutated templates never crash") {
  std::vector<std::string> seeds;
  for (const BundledTemplate& bundled : bundled_templates()) seeds.emplace_back(bundled.text);
  const Json expressions = golden("expressions.json");
  for (size_t i = 0; i < expressions["cases"].size(); i += 3)
    seeds.push_back(expressions["cases"][i]["template"]);
  jinja::Variables variables = variables_of(expressions["variables"]);
  variables.emplace_back(
      "tools", jinja::value_of_json(Json::parse(R"([{"type": "function", "function": {"name": "f"}}])")));
  const std::vector<std::string> pieces{
      "{{",   "}}",   "{%",    "%}",     "-%}",        "(",     ")",    "[",      "]",   ".",
      "|",    "'",    "\"",    "0",      "9999999999", "-",     "not ", "is ",    "in ", "if ",
      "for ", "else", "endif", "endfor", "namespace",  "range", "\\",   "\xff",   "世",  "**",
      "//",   ":",    ",",     "=",      "~",          "loop",  "none", "macro ", "raw"};
  uint64_t state = 12345;
  const auto below = [&](size_t bound) {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    return static_cast<size_t>((state >> 33) % bound);
  };
  jinja::Limits limits;
  limits.steps = 20'000;
  int64_t rendered_count = 0, failed_count = 0;
  for (int round = 0; round < 20'000; ++round) {
    std::string source = seeds[below(seeds.size())];
    for (size_t change = 1 + below(4); change > 0 && !source.empty(); --change) {
      const size_t at = below(source.size());
      switch (below(4)) {
        case 0:
          source.erase(at, 1 + below(5));
          break;
        case 1:
          source.insert(at, pieces[below(pieces.size())]);
          break;
        case 2:
          source[at] = static_cast<char>(below(256));
          break;
        default:
          source.insert(at, source.substr(below(source.size()), below(40)));
          break;
      }
    }
    try {
      Template::parse(source, "t").render(variables, limits, kNow);
      ++rendered_count;
    } catch (const Error& error) {
      ++failed_count;
      if (std::string(error.what()).rfind("t:", 0) != 0)
        FAIL("no place in: " << error.what() << "\n" << source);
    }
  }
  CHECK(rendered_count > 1000);
  CHECK(failed_count > 1000);
}

}  // namespace forge
