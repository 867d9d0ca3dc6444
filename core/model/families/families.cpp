#include <algorithm>

#include "core/lib/base/text.h"
#include "core/lib/io/architectures.h"
#include "core/model/families/described_family.h"
#include "core/model/families/family.h"
#include "core/model/families/wrapper.h"

namespace forge {
namespace {

[[noreturn]] void unknown_architecture(const std::string& architecture, const std::string& where,
                                       const std::vector<std::string>& known) {
  const std::string what =
      architecture.empty() ? "no architecture is named"
                           : "the architecture " + architecture + architecture_refusal(architecture, known);
  const std::string near = nearest_way(architecture, known);
  throw Error(ErrorKind::job, where + ": " + what + "; forge knows " + join(known, ", "))
      .hint(near.empty() && !architecture.empty() ? "a family file may describe it: docs/family-files.md" : near);
}

}  // namespace

const std::vector<Family>& families() {
  static const std::vector<Family> table{
      llama::llama_family(),  mistral::mistral_family(), qwen::qwen2_family(),   qwen::qwen3_family(),   built_in_family("phi3.yaml"),
      gemma::gemma_family(),  gemma::gemma2_family(),  gemma::gemma3_family(),  smollm3::smollm3_family(), granite::granite_family(),
      olmo::olmo2_family(),  olmo::olmo3_family(),   glm::glm_family(),     glm::glm4_family(),
      built_in_family("cohere.yaml"), built_in_family("cohere2.yaml"), built_in_family("starcoder2.yaml"), gpt_neox::gpt_neox_family(),
      falcon::falcon_family(), built_in_family("stablelm.yaml"), gpt2::gpt2_family(), t5::t5_family(), bart::bart_family(), mistral::mixtral_family(), qwen::qwen2_moe_family(), qwen::qwen3_moe_family(),
      gpt_oss::gpt_oss_family(), deepseek::deepseek_v2_family(), deepseek::deepseek_v3_family(), mistral::ministral3_family(), llama4::llama4_family(),
      phi::phi_family(), seed_oss::seed_oss_family(), exaone::exaone4_family(), ernie::ernie4_5_family(), hunyuan::hunyuan_v1_dense_family(),
      arcee::arcee_family(), olmo::olmo_family(), nemotron::nemotron_family(), granite::granitemoehybrid_family(), opt::opt_family(), gptj::gptj_family(),
      bloom::bloom_family(), mpt::mpt_family(), glm::glm4_moe_family(), olmo::olmoe_family(), granite::granitemoe_family(), granite::granitemoeshared_family(),
      ernie::ernie4_5_moe_family(), minimax::minimax_m2_family(), glm::dots1_family(), hunyuan::hunyuan_v1_moe_family(), deepseek::deepseek_family(),
      olmo::flex_olmo_family(), deepseek::deepseek_v32_family(), deepseek::glm_moe_dsa_family(), deepseek::glm4_moe_lite_family(), deepseek::mistral4_family(), falcon_h1::falcon_h1_family(), lfm2::lfm2_family(), lfm2::lfm2_moe_family(), gemma4::gemma4_family(),
      nemotron_h::nemotron_h_family(), qwen3_next::qwen3_next_family(), qwen3_next::qwen3_5_family(), qwen3_next::qwen3_5_moe_family()};
  return table;
}

const Family& family_of_architecture(const std::string& architecture, const std::string& where) {
  std::vector<std::string> known;
  for (const Family& family : families()) {
    if (family.architecture == architecture) return family;
    known.push_back(family.architecture);
  }
  for (const Wrapper& wrapper : wrappers()) known.push_back(wrapper.architecture);
  unknown_architecture(architecture, where, known);
}

const Family* find_family(const Json& type) {
  const auto found = std::find_if(families().begin(), families().end(), [&](const Family& family) { return type == family.name; });
  return found == families().end() ? nullptr : &*found;
}

const Family& family_of_type(const Json& type) {
  if (const Family* family = find_family(type)) return *family;
  std::vector<std::string> known;
  for (const Family& family : families()) known.push_back(family.name);
  throw Error(ErrorKind::job, "model.architecture: model_type is " + dump_json(type) + ", forge knows " + join(known, ", "));
}

const Family& family_of_gguf(const std::string& architecture, GgufKind kind, const std::string& where) {
  std::vector<std::string> known;
  // `plain` has no windows of its own. `other` disagrees with the file on experts, and will refuse
  // it.
  const Family *plain = nullptr, *other = nullptr;
  for (const Family& family : families()) {
    if (family.gguf_architecture.empty()) continue;
    std::vector<std::string> names = family.wrapped_gguf;
    names.insert(names.begin(), family.gguf_architecture);
    const bool named = std::ranges::count(names, architecture) > 0;
    if (named && family.mixture == kind.mixture) {
      if (family.gguf_windows && kind.windows) return family;
      if (!family.gguf_windows) plain = &family;
    }
    if (named) other = &family;
    for (const std::string& name : names)
      if (std::ranges::count(known, name) == 0) known.push_back(name);
  }
  if (plain) return *plain;
  if (other) return *other;
  unknown_architecture(architecture, where, known);
}

const Family& family_of(const ModelSpec& spec) {
  if (const Described* described = described_in(spec)) return described->family;
  const auto found = std::ranges::find(families(), spec.family, &Family::name);
  return found == families().end() ? families().front() : *found;  // tests build specs by hand
}

const OuterModules& outer_modules(const ModelSpec& spec) {
  const Wrapper* wrapper = wrapper_of(spec);
  return wrapper ? wrapper->modules : family_of(spec).modules;
}

}  // namespace forge
