// forge list: prints the available choices, from the tables that the program itself uses.
#include "cli/command.h"
#include "cli/console.h"
#include "core/job/field.h"
#include "core/lib/base/text.h"
#include "core/lib/text/chat_template.h"
#include "core/model/families/family.h"
#include "core/model/families/wrapper.h"
#include "core/plan/machine/gpu_database.h"
#include "core/plan/machine/profile.h"
#include "providers/providers.h"

namespace forge::list_command {
namespace {

using Row = std::vector<std::string>;  // name first

std::vector<Row> choices_of(const char* key) {
  std::vector<Row> rows;
  const Field* field = find_field(key);
  FORGE_CHECK(field, "no key " << key);
  for (const std::string& choice : field->choices) rows.push_back({choice});
  for (const std::string& choice : field->also) rows.push_back({choice});
  return rows;
}

template <class Items, class Make>
std::vector<Row> rows_of(const Items& items, const Make& make) {
  std::vector<Row> rows;
  for (const auto& item : items) rows.push_back(make(item));
  return rows;
}

std::vector<Row> list_families() {
  return rows_of(families(), [](const Family& family) {
    return Row{family.name, family.architecture,
               family.gguf_architecture.empty() ? "" : "GGUF: " + family.gguf_architecture,
               family.described ? "family file: forge family show " + family.name : ""};
  });
}

std::vector<Row> list_towers() {
  return rows_of(wrappers(), [](const Wrapper& wrapper) {
    std::vector<std::string> texts;
    for (const WrappedText& text : wrapper.texts) texts.push_back(text.family);
    return Row{wrapper.name, wrapper.architecture, "language model: " + join(texts, ", ")};
  });
}

std::vector<Row> list_gpus() {
  return rows_of(gpu_cards(), [](const GpuCard& card) {
    return Row{card.name, card.architecture,
               std::to_string(card.compute_capability / 10) + "." + std::to_string(card.compute_capability % 10),
               format_number(card.memory_gib) + " GiB"};
  });
}

struct List {
  const char* name;
  std::vector<Row> (*rows)();
  const char* meaning;
};
constexpr List kLists[] = {
    {"objectives", [] { return choices_of("objective.type"); },
     "objective.type: training objectives"},
    {"adapters", [] { return choices_of("adapter.type"); }, "adapter.type: kinds of adapter"},
    {"quantizations", [] { return choices_of("model.quantization"); },
     "model.quantization: formats of frozen weights"},
    {"formats", [] { return choices_of("data.train.format"); },
     "data.train.format: formats of data rows"},
    {"optimizers", [] { return choices_of("optimizer.type"); }, "optimizer.type: optimizers"},
    {"schedules", [] { return choices_of("schedule.type"); },
     "schedule.type: learning rate schedules"},
    {"providers",
     [] { return rows_of(providers(), [](auto& p) { return Row{p.name, p.summary}; }); },
     "provider: implementations of the layers"},
    {"profiles",
     [] { return rows_of(profiles(), [](auto& p) { return Row{p.name, p.title}; }); },
     "hardware.profile: settings by kind of device"},
    {"families", list_families, "model families, with their architecture in config.json"},
    {"towers", list_towers, "classes of models with towers, whose language model is trained"},
    {"gpus", list_gpus, "cards for --gpu: architecture, compute capability, memory"},
    {"templates",
     [] { return rows_of(bundled_templates(), [](auto& t) { return Row{std::string(t.name)}; }); },
     "data.template: bundled chat templates"},
    {"commands",
     [] { return rows_of(commands(), [](auto* c) { return Row{c->name, c->summary}; }); },
     "commands of forge"},
};

void print_rows(const std::vector<Row>& rows, bool json) {
  if (!json) return print(format_table(rows));
  Json names = Json::array();
  for (const Row& row : rows) names.push_back(row[0]);
  print_json(names);
}

int run(const Arguments& args) {
  if (args.operands().empty()) {
    print_rows(rows_of(kLists, [](const List& l) { return Row{l.name, l.meaning}; }), args.json());
    return 0;
  }
  const std::string& name = args.operands()[0];
  std::vector<std::string> names;
  for (const List& list : kLists) {
    names.push_back(list.name);
    if (name != list.name) continue;
    print_rows(list.rows(), args.json());
    return 0;
  }
  throw Error(ErrorKind::usage, "unknown list \"" + name + "\"" + did_you_mean(name, names))
      .hint("there are " + join(names, ", "));
}

}  // namespace

constexpr Command kCommand{
    "list", "[WHAT]", 0, 1, "list available profiles, gpus, families and other choices", {}, run};

}  // namespace forge::list_command
