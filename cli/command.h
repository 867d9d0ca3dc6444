#pragma once
// Commands: a row of words and one function each, command lines that are parsed by these rows, and
// help texts that are made of them.
//
//   constexpr Option kOptions[] = {{"--gpu", "NAME", "plan for this card instead of this machine"}};
//   int run_plan(const Arguments& args) { auto gpu = args.text("--gpu"); … }
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/lib/base/join_tables.h"

namespace forge {

struct Option {
  const char* name;   // "--gpu"
  const char* value;  // "NAME"; "" for a switch
  const char* help;
  bool repeats = false;
};

// A parsed command line. Asking for an option that the command's table does not have is reported as
// a bug.
class Arguments {
 public:
  Arguments(std::vector<std::string> operands, std::map<std::string, std::vector<std::string>> values)
      : operands_(std::move(operands)), values_(std::move(values)) {}

  const std::vector<std::string>& operands() const { return operands_; }
  // True if the switch or option is present.
  bool has(const std::string& name) const;
  std::optional<std::string> text(const std::string& name) const;
  const std::vector<std::string>& texts(const std::string& name) const;
  // These throw Error(usage) if the text is not a number or is outside [least, most].
  int64_t integer(const std::string& name, int64_t otherwise, int64_t least, int64_t most) const;
  std::vector<int64_t> integers(const std::string& name, int64_t least, int64_t most) const;  // one for each occurrence
  double number(const std::string& name, double otherwise, double least, double most) const;

  bool json() const { return has("--json"); }
  bool quiet() const { return has("--quiet"); }

 private:
  std::vector<std::string> operands_;
  std::map<std::string, std::vector<std::string>> values_;  // every option of the command, given or not
};

struct Command {
  const char* name;
  const char* operands;  // as the usage line shows them: "JOB…"
  int least_operands;
  int most_operands;
  const char* summary;
  std::span<const Option> options;  // besides --json, --quiet and --help, which every command has
  int (*run)(const Arguments&);     // the exit code; throws Error
};

// Each command is defined in the file of its name, in a namespace of its own.
namespace adapter_command { extern const Command kCommand; }
namespace bench_command { extern const Command kCommand; }
namespace chat_command { extern const Command kCommand; }
namespace data_command { extern const Command kCommand; }
namespace doctor_command { extern const Command kCommand; }
namespace eval_command { extern const Command kCommand; }
namespace export_command { extern const Command kCommand; }
namespace family_command { extern const Command kCommand; }
namespace fetch_command { extern const Command kCommand; }
namespace generate_command { extern const Command kCommand; }
namespace init_command { extern const Command kCommand; }
namespace list_command { extern const Command kCommand; }
namespace merge_command { extern const Command kCommand; }
namespace plan_command { extern const Command kCommand; }
namespace profile_command { extern const Command kCommand; }
namespace rollouts_command { extern const Command kCommand; }
namespace run_command { extern const Command kCommand; }
namespace schema_command { extern const Command kCommand; }
namespace score_command { extern const Command kCommand; }
namespace validate_command { extern const Command kCommand; }

// Returns every command of forge, in the order that --help shows.
std::span<const Command* const> commands();
// Returns the command of that name. Throws Error(usage) with the nearest name.
const Command& find_command(const std::string& name);
// Returns the text of `forge --help`: the commands and the exit codes.
std::string overview();

// Parses `words` (what follows the command's name) by the command's table. Returns nothing if help
// was requested.
// Throws Error(usage) that names the word and the nearest option.
std::optional<Arguments> parse_arguments(const Command& command, const std::vector<std::string>& words);
std::string help_text(const Command& command);

}  // namespace forge
