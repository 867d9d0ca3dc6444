// The documentation of the protocol between program and engine, out of its tables.
#include "core/run/request_fields.h"

namespace forge {
namespace {

constexpr const char* kIntroduction = R"(# How the program and the engine talk

<!-- Written by `forge schema event --docs`; tests/run/schema_test.cpp compares. -->

`forge` (no LibTorch) starts `forge-engine` (LibTorch) once per command that computes. Both come from one build; the first event
carries the protocol version, and a mismatch is an environment error.

- **Request**: one line of JSON on the engine's stdin. The program keeps stdin open as long as it lives: end of file tells the
  engine that the program is gone, and the engine then writes its checkpoint and leaves.
- **Events**: JSON lines on the engine's stdout, each with `event`. Nothing else is ever printed there. stderr is free text (a
  library's complaint, a crash) that the program shows when the engine ends badly.
- **End**: the engine's exit code is forge's (`forge --help` lists them). Before a non-zero one it sends an `error` event. An engine
  that ends without saying so (a signal, exit 137) is explained by the program.
- **Signals**: SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2 and SIGXCPU (the last four unless they were ignored when forge was started,
  as nohup does) ask for a checkpoint at the next micro-batch and exit code 75; while there is nothing to save, the engine leaves at
  once with 130. The program passes the first one on as SIGTERM and kills the engine on a second SIGINT or SIGTERM. The engine may
  also get them directly, and more than once: they count as one. It starts with signals blocked and unblocks them once its
  handlers are installed.
- **Lock**: the program locks the run folder (flock) before it decides what to do with it, and leaves the descriptor open in the
  engine, so that the folder stays locked until both have gone.

Fields in italics may be missing; in a request they may also be null.
)";

// Returns a table with one row per event and its meaning, and one per field.
std::string table_of(const std::string& title, const std::string& first_column,
                     std::span<const EventShape> shapes) {
  std::string text =
      "\n## " + title + "\n\n| " + first_column + " | field | type | meaning |\n|---|---|---|---|\n";
  for (const EventShape& shape : shapes) {
    text += std::string("| **`") + shape.name + "`** | | | " + shape.meaning + " |\n";
    for (const EventField& field : shape.fields) {
      const std::string name = std::string("`") + field.name + "`";
      text += "| | " + (field.required ? name : "*" + name + "*") + " | " + short_name_of(field.type) +
              " | " + field.meaning + " |\n";
    }
  }
  return text;
}

}  // namespace

std::string protocol_markdown() {
  return kIntroduction + table_of("Requests", "`command`", request_shapes()) +
         table_of("Events", "`event`", event_shapes());
}

}  // namespace forge
