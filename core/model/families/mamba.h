#pragma once
// Mamba-2 (Dao and Gu, 2024) as a part of hybrid models' layers: one projection makes a gate, the
// values, B and C, and a step for each head; a short convolution passes over all but gate and
// steps; the state space mixes; and what it makes is gated, normed and projected back.
#include "core/model/families/config_spec.h"
#include "core/model/families/family.h"

namespace forge {

// Names of a mixer's modules.
struct MambaNames {
  const char *in_proj, *conv, *a_log, *dt_bias, *skip, *norm, *out_proj;
};
// Factors of what in_proj makes: gate, x, B, C and steps. All 1 without layer_factors.
struct MambaFactors {
  double gate = 1, x = 1, b = 1, c = 1, step = 1;
  bool operator==(const MambaFactors&) const = default;
};
inline constexpr MambaNames kMamba{"mamba.in_proj", "mamba.conv1d", "mamba.A_log", "mamba.dt_bias", "mamba.D", "mamba.norm", "mamba.out_proj"};

// Reads the keys "mamba_…" that Granite 4, Falcon-H1 and Bamba share. `heads`, `groups`, `state`:
// what a class assumes where config.json states none; `inner`: the key of the values' width, or
// null.
struct MambaDefaults {
  int64_t heads = 128, groups = 1, state = 256;
  const char* inner = nullptr;
};
void read_mamba(Settings& settings, ModelSpec& spec, const MambaDefaults& defaults);
void write_mamba(const ModelSpec& spec, Json& config);

// Refuses a time_step_limit that bounds steps from above.
void read_step_limit(Settings& settings, ModelSpec& spec);

// Reads which layers mix by a state space (delta_layers) out of layer_types.
void read_state_layers(Settings& settings, ModelSpec& spec);

ValueId mamba_mixer(Recorder& g, const ModelSpec& m, ValueId x, const MambaNames& names = kMamba,
                    const MambaFactors& factors = {});

}  // namespace forge
