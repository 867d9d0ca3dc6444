// Faults of a job that draws completions, each with its message: servers, tools, and settings that
// ppo cannot train with.
#include "core/job/load.h"
#include "tests/test.h"

namespace forge {
namespace {

struct Case {
  std::string text, message;  // appended to the job below; message empty: no fault
};

std::string fault_of(const std::string& text) {
  const TemporaryFolder folder;
  const std::string path = folder.write("job.yaml", "model: {path: m}\ndata: {train: rows.jsonl}\nrewards: [{type: exact}]\n" + text);
  try {
    load_job(path);
  } catch (const Error& error) {
    const std::string all = error.what();
    return all.substr(all.find(": ") + 2);
  }
  return "";
}

const std::vector<Case> kCases{
    {"adapter: lora\nobjective: grpo", ""},
    // A server.
    {"adapter: lora\nobjective: grpo\nrollout: {provider: http, server: {url: 'http://h/v1'}}", ""},
    {"adapter: lora\nobjective: grpo\nrollout: {provider: http}", "rollout.server.url: missing: provider http needs it"},
    {"adapter: lora\nobjective: grpo\nrollout: {provider: http, server: {url: 'h/v1'}}", "\"h/v1\" is not a URL"},
    {"adapter: lora\nobjective: grpo\nrollout: {server: {url: 'http://h/v1'}}", "rollout.server.url: has no effect: rollout.provider is here"},
    {"adapter: lora\nobjective: grpo\nrollout: {server: {max_gap: 1}}", "rollout.server.max_gap: has no effect"},
    {"adapter: lora\nobjective: grpo\nrollout: {provider: http, slots: 64, server: {url: 'http://h/v1'}}", "rollout.slots: has no effect"},
    {"adapter: lora\nobjective: grpo\nrollout: {provider: http, server: {url: 'http://h/v1', adapter_folder: here}}", "is not an absolute path"},
    {"adapter: lora\nobjective: grpo\nrollout: {provider: http, server: {url: 'http://h/v1', headers: {X-A: \"s3cret\\r\\nHost: b\"}}}",
     "rollout.server.headers: the value of X-A contains a line break"},
    {"adapter: lora\nobjective: grpo\nrollout: {provider: http, server: {url: 'http://h/v1', headers: {'X A': b}}}",
     "rollout.server.headers: \"X A\" is not a header name"},
    {"adapter: none\nobjective: grpo\nrollout: {provider: http, server: {url: 'http://h/v1'}}", "a server takes adapters only"},
    {"adapter: {type: lora, use_dora: true}\nobjective: grpo\nrollout: {provider: http, server: {url: 'http://h/v1'}}", "servers cannot load DoRA adapters"},
    {"adapter: {type: lora, modules_to_save: [lm_head]}\nobjective: grpo\nrollout: {provider: http, server: {url: 'http://h/v1'}}",
     "servers cannot load whole modules"},
    {"adapter: {type: lora, init: pissa}\nobjective: grpo\nrollout: {provider: http, server: {url: 'http://h/v1'}}", "and the server has the whole base"},
    {"adapter: lora\nobjective: grpo\nrollout: {provider: http, correction: 3, server: {url: 'http://h/v1', max_staleness: 2}}", ""},
    {"adapter: lora\nobjective: grpo\nrollout: {server: {max_staleness: 1}}", "rollout.server.max_staleness: has no effect: rollout.provider is here"},
    {"adapter: lora\nobjective: grpo\nrollout: {correction: 2}", "rollout.correction: has no effect: rollout.provider is here"},
    {"adapter: lora\nobjective: grpo\nrollout: {provider: http, server: {url: 'http://h/v1', max_staleness: 1}, dynamic_sampling: {reward: exact}}",
     "rollout.server.max_staleness: rollouts are drawn before their scores are known"},
    {"adapter: lora\nobjective: grpo\nrollout: {provider: http, server: {url: 'http://h/v1', max_staleness: 1}, tools: {command: t}}",
     "rollout.server.max_staleness: rollouts drawn ahead have one turn"},
    {"adapter: lora\nobjective: grpo\nrollout: {provider: http, correction: 0.5, server: {url: 'http://h/v1'}}", "rollout.correction: 0.5 is out of range"},
    // Tools.
    {"adapter: lora\nobjective: grpo\nrollout: {tools: {command: [python3, tool.py], max_turns: 2, timeout: 5s}}", ""},
    {"adapter: lora\nobjective: grpo\nrollout: {tools: {max_turns: 2}}", "rollout.tools.max_turns: has no effect: rollout.tools.command is not set"},
    {"adapter: lora\nobjective: grpo\nrollout: {tools: {on_error: unscored}}", "rollout.tools.on_error: has no effect"},
    {"adapter: lora\nobjective: grpo\nrollout: {tools: {command: t, max_turns: 1}}", "rollout.tools.max_turns: 1 is out of range"},
    {"adapter: lora\nobjective: sft\nrollout: {tools: {command: t}}", "rollout.tools.command: has no effect: objective.type sft draws no completions"},
    // A value network.
    {"adapter: lora\nobjective: grpo\noptimizer: {type: schedule_free}\nschedule: constant", ""},
    {"adapter: lora\nobjective: ppo\noptimizer: {type: schedule_free}\nschedule: constant",
     "optimizer.type: schedule_free averages the weights, and the value network keeps no average"},
    {"adapter: {type: lora, init: pissa}\nobjective: ppo", "which the value network shares"},
    {"adapter: lora\nobjective: {type: ppo, advantage: {scale: group}}", "completions are not compared within a group when there is a value network"},
};

}  // namespace

TEST_CASE("a job that draws completions is refused for what it could not do") {
  for (const Case& one : kCases) {
    INFO(one.text);
    const std::string fault = fault_of(one.text);
    if (one.message.empty())
      CHECK(fault == "");
    else
      CHECK_THAT(fault, Catch::Contains(one.message));
  }
}

}  // namespace forge
