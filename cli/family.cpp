// forge family: checks a family file with a model of its class, and shows those of forge's own.
#include <algorithm>
#include <filesystem>

#include "cli/command.h"
#include "cli/console.h"
#include "cli/family_vectors.h"
#include "cli/model_choice.h"
#include "core/lib/base/file.h"
#include "core/lib/base/text.h"
#include "core/model/families/described_family.h"
#include "core/model/families/stored_file.h"
#include "core/plan/files/model_file.h"

namespace forge::family_command {
namespace {

constexpr Option kOptions[] = {
    {"--vectors", "FILE",
     "also compare logits, gradients and text with those that scripts/family_vectors.py took from "
     "transformers"},
    {"--threads", "N", "number of threads (default: all cores)"},
};

std::vector<std::string> own_files() {
  std::vector<std::string> names;
  for (const Family& family : families())
    if (family.described) names.push_back(family.name);
  return names;
}

int show(const std::string& name) {
  const std::string text = built_in_description(name + ".yaml");
  if (text.empty())
    throw Error(ErrorKind::usage,
                "forge family show " + name + ": expected one of " + join(own_files(), ", "))
        .hint("forge's other families are C++: docs/adding.md");
  print(text);
  return 0;
}

int64_t count_of(const std::vector<Parameter>& parameters) {
  int64_t count = 0;
  for (const Parameter& parameter : parameters) count += parameter.count();
  return count;
}

// The result of a check.
struct Check {
  std::vector<std::string> lines;  // what was found to be right, or could not be looked at
  std::vector<VectorRow> rows;

  bool holds() const { return std::ranges::all_of(rows, &VectorRow::holds); }
};

Json to_json(const Check& check) {
  Json rows = Json::array();
  for (const VectorRow& row : check.rows)
    rows.push_back({{"what", row.what},
                    {"difference", row.difference},
                    {"limit", row.limit},
                    {"holds", row.holds()},
                    {"note", row.note}});
  return {{"holds", check.holds()}, {"found", check.lines}, {"vectors", rows}};
}

std::string text_of(const Check& check) {
  std::vector<std::vector<std::string>> rows;
  for (const VectorRow& row : check.rows)
    rows.push_back({row.holds() ? "ok" : "FAILED", row.what, format_number(row.difference),
                    "limit " + format_number(row.limit), row.note});
  return join(check.lines, "\n") + "\n" + format_table(rows);
}

Check check(const std::string& file, const std::string& path, const Arguments& args,
            Progress& progress) {
  const ModelConfig model{.path = path, .family = file};
  const ModelSpec spec = read_model_spec(model);
  const std::vector<Parameter> parameters = base_parameters(spec);
  Check check;
  check.lines.push_back(file + ": describes " + family_of(spec).architecture);
  const ConfigNotes notes = config_notes(model);
  check.lines.push_back(
      "config.json: every key is read" +
      (notes.ignored.empty() ? "" : ", or ignored: " + join(notes.ignored, ", ")));
  check.lines.push_back("parameters: " + format_count(count_of(parameters)) + " in " +
                        std::to_string(parameters.size()) + " tensors");
  if (has_weights(path)) {
    check_model_file(spec, *open_weights(spec, path, Data::optional), path);
    check.lines.push_back("tensors: names and shapes are those of the model's files");
  } else {
    check.lines.push_back(
        "tensors: the model has no weights, so names and shapes were not compared");
  }
  const std::optional<std::string> vectors = args.text("--vectors");
  if (vectors)
    check.rows = compare_vectors(read_vectors(*vectors, spec), model, spec, args, progress);
  else
    check.lines.push_back("vectors: none given (--vectors), so no number was compared");
  return check;
}

int run(const Arguments& args) {
  const std::vector<std::string>& words = args.operands();
  if (words[0] == "show" && words.size() == 2) return show(words[1]);
  if (words[0] != "check" || words.size() != 3)
    throw Error(ErrorKind::usage,
                "forge family " + join(words, " ") + ": expected check FILE MODEL, or show NAME")
        .hint("forge family check family.yaml models/NAME");
  Progress progress(args.json(), args.quiet());
  const Check found = check(std::filesystem::absolute(words[1]).lexically_normal().string(),
                            model_path(words[2]), args, progress);
  progress.clear();
  print_either(args.json(), to_json(found), text_of(found));
  return found.holds() ? 0 : exit_code(ErrorKind::gate);
}

}  // namespace

constexpr Command kCommand{"family",
                                 "check FILE MODEL | show NAME",
                                 2,
                                 3,
                                 "check a family file with a model of its class",
                                 kOptions,
                                 run};

}  // namespace forge::family_command
