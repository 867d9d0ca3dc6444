// Fuzzes chat templates: parsed, and rendered over a conversation with tools and thinking, within
// small limits.
#include "core/lib/text/jinja/template.h"
#include "tests/fuzz/target.h"

namespace {

using namespace forge;

// Small, so that a loop of a million rounds costs no second.
constexpr jinja::Limits kLimits{.steps = 50'000, .output_bytes = 1 << 20};

jinja::Variables conversation() {
  const Json variables = {
      {"messages",
       {{{"role", "system"}, {"content", "Be brief."}},
        {{"role", "user"}, {"content", "é <b> & 'q' \"d\" {{ x }}\n  two"}},
        {{"role", "assistant"},
         {"content", "<think>\nhm\n</think>\n\nYes."},
         {"reasoning_content", "hm"},
         {"tool_calls",
          {{{"type", "function"},
            {"id", "abcdef123"},
            {"function", {{"name", "f"}, {"arguments", {{"a", 1}, {"b", nullptr}, {"c", 1.5e-7}}}}}}}}},
        {{"role", "tool"}, {"name", "f"}, {"content", "[1, 2]"}, {"tool_call_id", "abcdef123"}}}},
      {"tools",
       {{{"type", "function"},
         {"function",
          {{"name", "f"},
           {"description", "d"},
           {"parameters", {{"type", "object"}, {"properties", Json::object()}}}}}}}},
      {"add_generation_prompt", true},
      {"bos_token", "<s>"},
      {"eos_token", "</s>"}};
  jinja::Variables values;
  for (const auto& [name, value] : variables.items()) values.emplace_back(name, jinja::value_of_json(value));
  return values;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const jinja::Variables variables = conversation();
  read_or_refuse(
      [&] { jinja::Template::parse(text_of(data, size), "template").render(variables, kLimits, 0); });
  return 0;
}
