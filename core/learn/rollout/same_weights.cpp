#include "core/learn/rollout/same_weights.h"

#include <cmath>
#include <limits>

#include "core/lib/base/error.h"
#include "core/lib/base/text.h"

namespace forge {

WeightsSeen weights_seen(const std::vector<Completion>& completions) {
  WeightsSeen seen;
  double gaps = 0, uu = 0, uv = 0, vv = 0;
  for (const Completion& c : completions) {
    const std::vector<float>& own = c.drawn_logps.empty() ? c.old_logps : c.drawn_logps;
    FORGE_CHECK(own.size() == c.sampler_logps.size() && c.base_logps.size() == c.sampler_logps.size(), "a completion without its log-probabilities");
    for (size_t t = 0; t < c.sampler_logps.size(); ++t) {
      const double u = double{own[t]} - c.base_logps[t], v = double{c.sampler_logps[t]} - c.base_logps[t];
      gaps += std::abs(v - u);
      uu += u * u, uv += u * v, vv += v * v;
    }
    seen.tokens += c.tokens();
  }
  if (seen.tokens == 0) return seen;
  const auto count = static_cast<double>(seen.tokens);
  seen.gap = gaps / count;
  seen.error = std::numeric_limits<double>::infinity();
  if (uu > 0 && seen.tokens > 1) {
    seen.effect = uv / uu;
    const double rest = std::max(0.0, vv - seen.effect * uv);
    seen.error = std::sqrt(rest / (count - 1) / uu);
  }
  return seen;
}

void require_same_weights(const Rollout& rollout, const ServerConfig& server) {
  constexpr double kErrors = 3;
  const WeightsSeen seen = weights_seen(rollout.completions);
  if (seen.tokens == 0) return;
  const std::string who = *server.url + ": rollout " + std::to_string(rollout.number + 1) + ": ";
  if (seen.effect < 0.5 && seen.effect + kErrors * seen.error < 1)
    throw Error(ErrorKind::environment, who + "the server draws like the base model: of what the adapter " + rollout.completions.front().adapter +
                                            " changes it shows " + format_number(std::round(seen.effect * 1e3) / 1e3) + " ± " +
                                            format_number(std::round(seen.error * 1e3) / 1e3) + ", expected 1")
        .hint("it reported the adapter as loaded but does not apply it; nothing was trained on what it drew");
  if (!(seen.gap <= server.max_gap))
    throw Error(ErrorKind::environment, who + "the server's log-probabilities differ from the trainer's by " + format_number(seen.gap) +
                                            " a token, over " + format_count(seen.tokens) + " tokens; rollout.server.max_gap is " +
                                            format_number(server.max_gap))
        .hint("it has another base model or quantization, gives log-probabilities before the temperature, or ids that it did not draw: "
              "docs/rollout-server.md; nothing was trained on them");
}

}  // namespace forge
