// Reads {"template": …, "variables": {…}, "now": seconds} per line, writes {"output": …} or
// {"error": …} per line.
#include <iostream>

#include "core/lib/text/jinja/template.h"

namespace {

using namespace forge;

Json rendered(const Json& request) {
  jinja::Variables variables;
  for (const auto& [name, value] : request["variables"].items())
    variables.emplace_back(name, jinja::value_of_json(value));
  const auto parsed = jinja::Template::parse(request["template"].get<std::string>(), "template");
  const jinja::MarkedText text = parsed.render(variables, {}, request.value("now", int64_t{0}));
  Json generated = Json::array();
  int64_t begin = 0;
  for (const jinja::MarkedRun& run : text.runs) {
    if (run.mark & jinja::kGenerated) generated.push_back({begin, run.end});
    begin = run.end;
  }
  return {{"output", text.bytes}, {"generated", generated}};
}

}  // namespace

int main() {
  for (std::string line; std::getline(std::cin, line);) {
    try {
      std::cout << rendered(Json::parse(line)).dump() << std::endl;
    } catch (const Error& error) {
      std::cout << Json{{"error", error.what()}}.dump() << std::endl;
    }
  }
}
