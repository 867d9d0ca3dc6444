// Decoding: many sequences together, and what must not affect any one of them.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <c10/core/GradMode.h>

#include <map>

#include "core/adapter/lora.h"
#include "core/families/adapter_sites.h"
#include "core/io/model_file.h"
#include "core/model/generate.h"
#include "providers/engine_providers.h"
#include "providers/fused/kv_cache.h"
#include "tests/test.h"

using namespace forge;

namespace {

const std::string kModel = std::string(FORGE_SOURCE_DIR) + "/tests/fixtures/tiny-llama";

// A model with an adapter of rank 5, whose factors are not zero.
struct Loaded {
  Model model;
  std::unique_ptr<TrainableSet> trainables;
  StepOptions options;

  explicit Loaded(c10::ScalarType type) {
    const ModelSpec spec = read_model_spec(kModel);
    Job job;
    job.adapter.type = AdapterType::lora;
    job.adapter.rank = 5;
    model = load_model(spec, *open_model(kModel), type, c10::Device(c10::DeviceType::CPU));
    c10::NoGradGuard no_grad;
    trainables = std::make_unique<TrainableSet>(trained_layout(run_parameters(spec, job.adapter, Quantization::none)), type,
                                                model.device, true);
    const auto sites = adapter_sites(spec, job.adapter);
    attach_adapter(model, *trainables, sites, job.adapter);
    at::manual_seed(7);
    for (Trainable& item : trainables->items()) item.master.copy_(at::randn(item.master.sizes()) * 0.1);
    trainables->publish();
    options = step_options(spec, job, sites, Checkpointing::none);
  }
  std::unique_ptr<Decoder> decoder(const std::string& provider) const {
    return make_decoder(provider, model, *trainables, options);
  }
};

// Of 1, 6, 11 … tokens, then some that pass a page of the cache.
std::vector<std::vector<int32_t>> prompts(size_t count, int64_t vocab) {
  std::vector<std::vector<int32_t>> all;
  for (size_t i = 0; i < count; ++i) {
    const size_t length = i % 4 == 3 ? 60 + 5 * i : 1 + 5 * i;
    all.emplace_back();
    for (size_t t = 0; t < length; ++t)
      all.back().push_back(static_cast<int32_t>((31 * i + 7 * t * t + 3) % static_cast<size_t>(vocab)));
  }
  return all;
}

struct Answer {
  std::vector<int32_t> ids;
  TextEnd reason = TextEnd::length;
};

std::vector<Answer> answers(Decoder& decoder, const std::vector<std::vector<int32_t>>& prompts,
                            const SamplingConfig& config, const GenerationRoom& room = {}) {
  std::vector<Answer> all(prompts.size());
  generate(decoder, prompts, config, room,
           {.token =
                [&](int64_t prompt, int32_t id, float) {
                  all[static_cast<size_t>(prompt)].ids.push_back(id);
                  return true;
                },
            .end = [&](int64_t prompt, const GenerationEnd& end) {
              all[static_cast<size_t>(prompt)].reason = end.reason;
              CHECK(end.tokens == static_cast<int64_t>(all[static_cast<size_t>(prompt)].ids.size()));
            }});
  return all;
}

}  // namespace

TEST_CASE("in fp32 a sequence's logits have the same bits in whatever company") {
  at::set_num_threads(2);
  const Loaded loaded(at::kFloat);
  const auto all = prompts(9, loaded.model.spec.vocab_size);
  const auto together = loaded.decoder("fused");
  std::vector<NewTokens> tokens;
  for (size_t i = 0; i < all.size(); ++i) tokens.push_back({static_cast<int64_t>(i), all[i]});
  std::vector<std::unique_ptr<Decoder>> alone;
  for (size_t i = 0; i < all.size(); ++i) alone.push_back(loaded.decoder("fused"));
  for (int step = 0; step < 70; ++step) {  // past the end of a page
    const at::Tensor logits = together->next_logits(tokens).clone();
    for (size_t row = 0; row < tokens.size(); ++row) {
      INFO("step " << step << ", sequence " << tokens[row].sequence);
      const auto i = static_cast<size_t>(tokens[row].sequence);
      const at::Tensor own = alone[i]->next_logits({{0, tokens[row].ids}})[0];
      REQUIRE(at::equal(own, logits[static_cast<int64_t>(row)]));
      tokens[row].ids = {static_cast<int32_t>(own.argmax().item<int64_t>())};
    }
    if (step % 12 == 11) {  // one leaves
      together->release(tokens[1].sequence);
      tokens.erase(tokens.begin() + 1);
    }
  }
}

TEST_CASE("fused decodes to the reference's logits, in bf16 no further from fp32 than it") {
  at::set_num_threads(2);
  const Loaded exact(at::kFloat), narrow(at::kBFloat16);
  const auto truth = exact.decoder("reference"), fused = exact.decoder("fused"),
             narrow_fused = narrow.decoder("fused"), narrow_reference = narrow.decoder("reference");
  std::vector<NewTokens> tokens;
  const auto all = prompts(6, exact.model.spec.vocab_size);
  for (size_t i = 0; i < all.size(); ++i) tokens.push_back({static_cast<int64_t>(i), all[i]});
  double mine = 0, its = 0;
  for (int step = 0; step < 20; ++step) {
    INFO("step " << step);
    const at::Tensor want = truth->next_logits(tokens);
    const auto error = [&](Decoder& decoder) {
      return ((decoder.next_logits(tokens) - want).norm() / want.norm()).item<double>();
    };
    CHECK(error(*fused) < 1e-5);
    mine += error(*narrow_fused);
    its += error(*narrow_reference);
    for (size_t i = 0; i < tokens.size(); ++i)
      tokens[i].ids = {static_cast<int32_t>(want[static_cast<int64_t>(i)].argmax().item<int64_t>())};
  }
  CHECK(its > 0);
  CHECK(mine < 1.1 * its);
}

TEST_CASE("a draw depends on the seed, the prompt's number and the token's, not on how many decode together") {
  at::set_num_threads(2);
  const Loaded loaded(at::kFloat);
  auto all = prompts(7, loaded.model.spec.vocab_size);
  all.push_back(all[0]);  // the same prompt with another stream number gives another text
  const SamplingConfig config{.max_new_tokens = 25, .temperature = 1.2, .top_k = 40, .top_p = 0.95, .seed = 5};
  const auto together = answers(*loaded.decoder("fused"), all, config);
  for (const GenerationRoom& room :
       {GenerationRoom{1, 1}, GenerationRoom{3, 2048}, GenerationRoom{32, 40}, GenerationRoom{2, 1}}) {
    const auto again = answers(*loaded.decoder("fused"), all, config, room);
    for (size_t i = 0; i < all.size(); ++i) {
      INFO(room.sequences << " at once, prompt " << i);
      CHECK(again[i].ids == together[i].ids);
    }
  }
  CHECK(together[0].ids != together[7].ids);
  SamplingConfig other = config;
  other.seed = 6;
  CHECK(answers(*loaded.decoder("fused"), all, other)[0].ids != together[0].ids);
}

TEST_CASE("samples of one prompt that is read once are those of prompts that are read apart") {
  at::set_num_threads(2);
  const Loaded loaded(at::kFloat);
  auto few = prompts(4, loaded.model.spec.vocab_size);
  few[1].resize(kCachePage, 5);      // ends with its page
  few[2].resize(kCachePage + 7, 6);  // shares a page and copies one
  std::vector<std::vector<int32_t>> apart;
  SamplingConfig config{.max_new_tokens = 70, .temperature = 1.1, .seed = 5};  // past a page
  for (size_t i = 0; i < few.size(); ++i)
    for (uint64_t sample = 0; sample < 3; ++sample) {
      apart.push_back(few[i]);
      config.streams.push_back(1000 * i + sample);
    }
  for (const char* provider : {"fused", "reference"}) {
    const auto alone = answers(*loaded.decoder(provider), apart, config);
    SamplingConfig grouped = config;
    grouped.samples = 3;
    for (const GenerationRoom& room : {GenerationRoom{12, 4096}, GenerationRoom{3, 1}, GenerationRoom{7, 80}}) {
      std::vector<Answer> together(apart.size());
      generate(*loaded.decoder(provider), few, grouped, room,
               {.token =
                    [&](int64_t text, int32_t id, float logp) {
                      CHECK(logp <= 0);
                      together[static_cast<size_t>(text)].ids.push_back(id);
                      return true;
                    },
                .end = [](int64_t, const GenerationEnd&) {}});
      for (size_t i = 0; i < apart.size(); ++i) {
        INFO(provider << ", " << room.sequences << " at once, text " << i);
        // The reference's products differ in the last bits with the other rows in the batch.
        if (std::string(provider) == "fused") CHECK(together[i].ids == alone[i].ids);
        CHECK(together[i].ids.size() == 70);
      }
      CHECK(together[0].ids != together[1].ids);
    }
  }
}

TEST_CASE("a stop sequence ends a text as its last tokens") {
  at::set_num_threads(2);
  const Loaded loaded(at::kFloat);
  const auto all = prompts(3, loaded.model.spec.vocab_size);
  const auto free = answers(*loaded.decoder("fused"), all, {.max_new_tokens = 12, .temperature = 1});
  const std::vector<int32_t> stop{free[1].ids[3], free[1].ids[4], free[1].ids[5]};
  int64_t stop_tokens = -1;
  std::vector<int32_t> ids;
  generate(*loaded.decoder("fused"), all, {.max_new_tokens = 12, .temperature = 1, .stop_sequences = {{1, 2, 3, 4, 5}, stop}}, {},
           {.token =
                [&](int64_t text, int32_t id, float) {
                  if (text == 1) ids.push_back(id);
                  return true;
                },
            .end =
                [&](int64_t text, const GenerationEnd& end) {
                  if (text != 1) return;
                  stop_tokens = end.stop_tokens;
                  CHECK(end.reason == TextEnd::stop);
                  CHECK(end.stop_id == -1);
                }});
  CHECK(ids == std::vector<int32_t>(free[1].ids.begin(), free[1].ids.begin() + 6));
  CHECK(stop_tokens == 3);
}

TEST_CASE("a text ends at its stop token, or when it is long enough") {
  at::set_num_threads(2);
  const Loaded loaded(at::kFloat);
  const auto all = prompts(5, loaded.model.spec.vocab_size);
  const auto free = answers(*loaded.decoder("fused"), all, {.max_new_tokens = 12, .temperature = 1});
  const int32_t stop = free[2].ids[4];
  const auto stopped =
      answers(*loaded.decoder("fused"), all, {.max_new_tokens = 12, .temperature = 1, .stop_ids = {stop}});
  for (size_t i = 0; i < all.size(); ++i) {
    const auto found = std::find(free[i].ids.begin(), free[i].ids.end(), stop);
    CHECK(stopped[i].ids == std::vector<int32_t>(free[i].ids.begin(), found));
    CHECK((stopped[i].reason == TextEnd::stop) == (found != free[i].ids.end()));
  }
  CHECK(free[0].ids.size() == 12);
}

TEST_CASE("pages of a sequence that ended serve the next") {
  const ModelSpec spec = read_model_spec(kModel);
  KvCache cache(spec, at::kFloat);
  cache.extend(0, 3 * kCachePage);
  cache.extend(1, 1);
  const CacheShape both = cache.shape({0, 1});
  const std::vector<int32_t> first(both.pages, both.pages + 3);
  CHECK(both.page_columns == 3);
  cache.release(0);
  CHECK(cache.length(0) == 0);
  cache.extend(2, 2 * kCachePage + 1);
  const CacheShape next = cache.shape({2});
  CHECK(std::vector<int32_t>(next.pages, next.pages + 3) == first);
}
