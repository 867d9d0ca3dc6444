// Tests input that yaml-cpp and nlohmann/json silently accept and forge does not.
#include "core/job/diagnostics.h"
#include "core/job/node.h"
#include "tests/test.h"

using namespace forge;

namespace {

std::string yaml(const std::string& text) {
  return error_of([&] { parse_yaml(text, "a.yaml"); });
}
std::string json(const std::string& text) {
  return error_of([&] { parse_json_node(text, "a.json"); });
}

}  // namespace

TEST_CASE("YAML keeps the place of keys and values, in characters") {
  Node root = parse_yaml("a: 1\n\"é b\": {c: [x, 'y']}\n# comment\nd:\n", "a.yaml");
  REQUIRE(root.is_map());
  CHECK(root.find("a")->at.text() == "a.yaml:1:4");
  CHECK(root.members[1].key == "é b");
  CHECK(root.members[1].key_at.text() == "a.yaml:2:1");
  const Node& list = *root.find("é b")->find("c");
  CHECK(list.at.text() == "a.yaml:2:12");
  CHECK(list.items[1].at.text() == "a.yaml:2:16");
  CHECK(list.items[0].quoting == Quoting::plain);
  CHECK(list.items[1].quoting == Quoting::quoted);
  CHECK(root.find("d")->is_null());
  CHECK(root.find("e") == nullptr);
}

TEST_CASE("YAML knows null from text") {
  Node root = parse_yaml("a: null\nb: ~\nc: 'null'\nd: NULL\ne: ''\nf: |\n  text\n", "a.yaml");
  CHECK(root.find("a")->is_null());
  CHECK(root.find("b")->is_null());
  CHECK(root.find("c")->scalar == "null");
  CHECK(root.find("d")->is_null());
  CHECK(root.find("e")->is_scalar());
  CHECK(root.find("f")->scalar == "text\n");
  CHECK(root.find("f")->quoting == Quoting::quoted);
}

TEST_CASE("a duplicate key is refused with both places") {
  CHECK(yaml("a: 1\nb: 2\na: 3\n") ==
        "a.yaml:3:1: the key \"a\" appears twice, first in line 1 (remove one of them)");
  CHECK(yaml("x: {a: 1, a: 2}\n") ==
        "a.yaml:1:11: the key \"a\" appears twice, first in line 1 (remove one of them)");
}

TEST_CASE("a quote that swallows the next key is refused where it opens") {
  const std::string rest =
      ": the quote is not closed on its line (close it, or write long text as a | block)";
  CHECK(yaml("a: \"abc\nb: 2\n") == "a.yaml:1:4" + rest);
  CHECK(yaml("a: 'abc\nb: 2\n") == "a.yaml:1:4" + rest);
  CHECK(yaml("a: \"abc\nb: \"\n") == "a.yaml:1:4" + rest);
  CHECK(yaml("a: \"abc\\\"\nb: 2\n") == "a.yaml:1:4" + rest);
  CHECK(yaml("a: it's fine\nb: \"say \\\"x\\\"\"\nc: 'it''s'\n") == "no error");
}

TEST_CASE("anchors, aliases, merge keys and tags are refused") {
  const std::string rest =
      ": anchors (&name) and aliases (*name) are not supported (write the value out, quote a text that "
      "starts with "
      "* or &, or share keys with extends)";
  CHECK(yaml("a: &x [1]\nb: *x\n") == "a.yaml:1:4" + rest);
  CHECK(yaml("a: &x [*x]\n") == "a.yaml:1:4" + rest);  // a cycle
  CHECK(yaml("&x a: 1\n") == "a.yaml:1:1" + rest);
  std::string bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 10; ++i) {
    std::string before = "*a" + std::to_string(i - 1);
    bomb += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [" + before + ", " + before + "]\n";
  }
  CHECK(yaml(bomb) == "a.yaml:1:5" + rest);
  CHECK_THAT(yaml("targets: *_proj\n"), Catch::StartsWith("a.yaml:1:10: not valid YAML: ") &&
                                            Catch::EndsWith("(quote a text that starts with * or &)"));
  CHECK(yaml("a: {b: 1}\nc:\n  <<: {b: 2}\n") ==
        "a.yaml:3:3: merge keys (<<) are not supported (share keys with extends)");
  CHECK(yaml("a: !!int 3\n") ==
        "a.yaml:1:4: tags (!name) are not supported (quote a text that starts with !)");
  CHECK(yaml("a: !x {b: 1}\n") ==
        "a.yaml:1:4: tags (!name) are not supported (quote a text that starts with !)");
  CHECK(yaml("a: ! 3\n") == "a.yaml:1:4: tags (!name) are not supported (quote a text that starts with !)");
}

TEST_CASE("a second document is refused") {
  CHECK(yaml("---\na: 1\n") == "no error");
  CHECK_THAT(yaml("a: 1\n---\nb: 2\n"),
             Catch::EndsWith(": a second document (a job is one document: remove the ---)"));
  CHECK_THAT(yaml("a: 1\n...\nb: 2\n"),
             Catch::EndsWith(": a second document (a job is one document: remove the ---)"));
}

TEST_CASE("bytes that YAML readers replace or stop at are refused") {
  CHECK(yaml("a: \xFF\n") == "a.yaml:1:4: not valid UTF-8 (save the file as UTF-8)");
  CHECK(yaml("a: 1\nb: \xC3\x28\n") == "a.yaml:2:4: not valid UTF-8 (save the file as UTF-8)");
  CHECK(yaml(std::string("a: 1\n\x04") + "b: 2\n") == "a.yaml:2:1: a control character (byte 4)");
  CHECK(yaml(std::string("a: 1\0b", 6)) == "a.yaml:1:5: a control character (byte 0)");
  CHECK(yaml("a:\n\tb: 1\n") == "a.yaml:2:1: a tab in the indentation (indent with spaces)");
  CHECK(yaml("\xEF\xBB\xBF"
             "a: 1\r\nb: 2\r\n") == "no error");
}

TEST_CASE("depth, count and size are limited") {
  std::string deep = "a: " + std::string(70, '[') + std::string(70, ']') + "\n";
  CHECK(yaml(deep) == "a.yaml:1:67: nested deeper than 64 levels");
  CHECK_THAT(yaml("a: " + std::string(100'000, '[')), Catch::StartsWith("a.yaml:1:"));
  std::string block;
  for (int i = 0; i < 2000; ++i) block += "- ";
  CHECK_THAT(yaml(block), Catch::Contains("nested deeper than 64 levels"));
  std::string wide = "a: [";
  for (int i = 0; i < 120'000; ++i) wide += "1, ";
  CHECK_THAT(yaml(wide + "1]\n"), Catch::EndsWith(": more than 100,000 values"));
  std::string keys;
  for (int i = 0; i < 3000; ++i) keys += "k" + std::to_string(i) + ": 1\n";
  CHECK(yaml(keys) == "a.yaml:2001:1: more than 2,000 keys in one map");
  CHECK(yaml(std::string(2 << 20, 'a')) ==
        "a.yaml:1:1: larger than 1.0 MiB (a job is a small file: check that this is one)");
}

TEST_CASE("keys are plain names and syntax faults have their place") {
  CHECK(yaml("? [a, b]\n: 1\n") == "a.yaml:1:3: a key must be a plain name (write \"key: value\")");
  CHECK(yaml("a: [1, 2\nb: 3\n").substr(0, 9) == "a.yaml:2:");
  CHECK_THAT(yaml("a: b: c\n"), Catch::StartsWith("a.yaml:1:5: not valid YAML: "));
  CHECK_THAT(yaml("a: }\n"), Catch::StartsWith("a.yaml:1:4: not valid YAML: "));
}

TEST_CASE("JSON nodes have the places of the text") {
  Node root =
      parse_node("{\n  \"é\": [1.50, \"x\\\"\\u00e9,\", true, null],\n  \"b\": {}, \"c\":-2e-5}", "a.json");
  CHECK(root.members[0].key == "é");
  CHECK(root.members[0].key_at.text() == "a.json:2:3");
  const Node& list = root.members[0].value;
  CHECK(list.at.text() == "a.json:2:8");
  CHECK(list.items[0].scalar == "1.50");
  CHECK(list.items[0].quoting == Quoting::plain);
  CHECK(list.items[1].scalar == "x\"é,");
  CHECK(list.items[1].quoting == Quoting::quoted);
  CHECK(list.items[1].at.text() == "a.json:2:15");
  CHECK(list.items[2].scalar == "true");
  CHECK(list.items[2].at.text() == "a.json:2:29");
  CHECK(list.items[3].is_null());
  CHECK(root.find("b")->is_map());
  CHECK(root.find("c")->at.text() == "a.json:3:16");
  CHECK(root.find("c")->scalar == "-2e-5");
}

TEST_CASE("JSON files are strict JSON") {
  CHECK(json("{\"a\": 1, \"a\": 2}") == "a.json:1:12: the key \"a\" appears twice in one object");
  CHECK_THAT(json("{a: 1}"), Catch::StartsWith("a.json:1:2: "));
  CHECK_THAT(json("{\"a\": 1,}"), Catch::StartsWith("a.json:1:9: "));
  CHECK_THAT(json("{\"a\": 1} x"), Catch::StartsWith("a.json:1:10: "));
  CHECK_THAT(json("// c\n{}"), Catch::StartsWith("a.json:1:"));
  CHECK(json("") == "a.json:1:1: empty, expected JSON");
  CHECK_THAT(json(std::string(1000, '[')), Catch::Contains("nested deeper than 64 levels"));
  CHECK_THAT(json("{\"a\": 18446744073709551616}"), Catch::Contains("does not fit 64 bits"));
}
