// Tests decoding: many sequences together, and settings that must not affect any one of them.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <c10/core/GradMode.h>

#include <map>

#include "core/lib/base/file.h"
#include "core/lib/io/encode.h"
#include "core/lib/io/model_file.h"
#include "core/model/adapter/lora.h"
#include "core/model/families/adapter_sites.h"
#include "core/model/families/config_spec.h"
#include "core/model/families/drawn_weights.h"
#include "core/model/generate.h"
#include "kernels/quantize/by_16.h"
#include "providers/engine_providers.h"
#include "providers/fused/kv_cache.h"
#include "tests/fixtures/variants.h"
#include "tests/test.h"

using namespace forge;

namespace {

const std::string kModel = std::string(FORGE_SOURCE_DIR) + "/tests/fixtures/tiny-llama";

// A model with an adapter of rank 5, whose factors are not zero.
struct Loaded {
  Model model;
  std::unique_ptr<TrainableSet> trainables;
  StepOptions options;

  explicit Loaded(c10::ScalarType type) : Loaded(type, *open_model(kModel), {}) {}
  // Loads a variant of the tiny model with weights that are drawn; "": the model itself.
  Loaded(c10::ScalarType type, const std::string& variant)
      : Loaded(type, *(variant.empty() ? open_model(kModel) : drawn_weights(spec_of(variant), 1)), {}, spec_of(variant)) {}
  Loaded(c10::ScalarType type, const TensorFile& file, const BaseStorage& storage, bool tied = false) : Loaded(type, file, storage, spec_of("", tied)) {}
  Loaded(c10::ScalarType type, const TensorFile& file, const BaseStorage& storage, const ModelSpec& spec) {
    Job job;
    job.adapter.type = AdapterType::lora;
    job.adapter.rank = 5;
    model = load_model(spec, file, type, c10::Device(c10::DeviceType::CPU), storage);
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
  static ModelSpec spec_of(const std::string& variant, bool tied = false) {
    ModelSpec spec = variant.empty() ? read_model_spec(kModel) : model_spec_from_config(variant_config(variant), variant);
    if (variant.empty()) spec.tie_word_embeddings = tied;
    // Layers with states magnify rounding between providers where drawn weights are larger.
    spec.initializer_range = variant.empty() ? 0.3 : 0.1;
    return spec;
  }
  std::unique_ptr<Decoder> decoder(const std::string& provider) const {
    return make_decoder(provider, model, *trainables, options);
  }
};

// Returns prompts of 1, 6, 11 … tokens, some of them longer than a page of the cache.
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
  const Loaded loaded(at::kFloat, GENERATE("", "qwen3-next", "qwen3-5"));
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

namespace {

// The tiny model with its matrices in a block type of GGUF, if their rows are whole blocks; `tied`:
// without a head of its own.
class EncodedFile : public TensorFile {
 public:
  explicit EncodedFile(DType dtype, bool tied = false) {
    const auto file = open_model(kModel);
    for (size_t i = 0; i < file->tensors().size(); ++i) {
      TensorInfo tensor = file->tensors()[i];
      if (tied && tensor.name == "lm_head.weight") continue;
      std::vector<float> values(static_cast<size_t>(tensor.count()));
      file->read_f32(i, values.data());
      tensor.dtype = tensor.shape.size() == 2 && tensor.shape[1] % block_elements(dtype) == 0 ? dtype : DType::f32;
      std::string bytes(static_cast<size_t>(bytes_of(tensor.dtype, tensor.count())), '\0');
      encode_from_f32(tensor.dtype, values.data(), tensor.count(), bytes.data());
      data_.emplace_back(folder_.write(std::to_string(i), bytes));
      tensors_.push_back(std::move(tensor));
    }
  }
  const std::vector<TensorInfo>& tensors() const override { return tensors_; }
  std::string_view bytes(size_t index) const override { return data_[index].bytes(); }
  int64_t file_bytes() const override { return 0; }
  std::string header_hash() const override { return ""; }

 private:
  TemporaryFolder folder_;
  std::vector<TensorInfo> tensors_;
  std::vector<MappedFile> data_;
};

}  // namespace

TEST_CASE("a model in its file's blocks decodes as with its weights decoded on loading, in bf16 no further from fp32 than it") {
  at::set_num_threads(2);
  for (const DType dtype : {DType::q8_0, DType::q4_0, DType::q5_1}) {
    INFO(name_of(dtype));
    const EncodedFile file(dtype);
    const BaseStorage in_blocks{.parameters = base_parameters(read_model_spec(kModel)), .stored_blocks = true};
    const Loaded exact(at::kFloat, file, {}), narrow(at::kBFloat16, file, {});
    const Loaded exact_blocks(at::kFloat, file, in_blocks), narrow_blocks(at::kBFloat16, file, in_blocks);
    const auto coding = [](const Loaded& in) { return *in.model.linears.at("model.layers.0.self_attn.q_proj").quantized.stored; };
    CHECK_FALSE(by_16(coding(exact_blocks)));
    CHECK(by_16(coding(narrow_blocks)) == (dtype != DType::q5_1));
    for (const Loaded* blocks : {&exact_blocks, &narrow_blocks}) {
      CHECK(blocks->model.head_blocks.defined());
      CHECK(blocks->model.linears.at("model.layers.0.self_attn.q_proj").quantized.stored);
      CHECK_FALSE(blocks->model.linears.at("model.layers.0.self_attn.q_proj").weight.defined());
      CHECK(blocks->model.linears.at("model.layers.0.mlp.down_proj").weight.defined());  // rows of 88
    }
    const auto truth = exact.decoder("fused"), same = exact_blocks.decoder("fused"), rounded = narrow.decoder("fused"),
               unrounded = narrow_blocks.decoder("fused");
    const auto all = prompts(9, exact.model.spec.vocab_size);
    std::vector<NewTokens> tokens;
    for (size_t i = 0; i < all.size(); ++i) tokens.push_back({static_cast<int64_t>(i), all[i]});
    double of_blocks = 0, of_weights = 0;
    for (int step = 0; step < 12; ++step) {  // of nine texts, in the end of one
      INFO("step " << step);
      const at::Tensor want = truth->next_logits(tokens).clone();
      REQUIRE(at::equal(same->next_logits(tokens), want));
      const auto error = [&](Decoder& decoder) {
        return ((decoder.next_logits(tokens) - want).norm() / want.norm()).item<double>();
      };
      of_blocks += error(*unrounded);
      of_weights += error(*rounded);
      for (size_t i = 0; i < tokens.size(); ++i)
        tokens[i].ids = {static_cast<int32_t>(want[static_cast<int64_t>(i)].argmax().item<int64_t>())};
      if (step >= 2 && tokens.size() > 1) {
        for (Decoder* decoder : {truth.get(), same.get(), rounded.get(), unrounded.get()}) decoder->release(tokens.back().sequence);
        tokens.pop_back();
      }
    }
    CAPTURE(of_blocks, of_weights);
    CHECK(of_blocks < 1.2 * of_weights);  // products in fp32 beside products in bf16: rounding of what lies between them dominates
  }
}

TEST_CASE("blocks that are read together lie one behind the other, and a tied head is the embedding's blocks") {
  at::set_num_threads(2);
  const EncodedFile file(DType::q4_0, true);
  const Loaded weights(at::kFloat, file, {}, true),
      blocks(at::kFloat, file, {.parameters = base_parameters(weights.model.spec), .stored_blocks = true}, true);
  CHECK(blocks.model.head_blocks.defined());
  const auto codes = [&](const char* name) {
    return blocks.model.linears.at(std::string("model.layers.1.self_attn.") + name).quantized.codes;
  };
  CHECK(codes("k_proj").const_data_ptr<uint8_t>() == codes("q_proj").const_data_ptr<uint8_t>() + codes("q_proj").numel());
  CHECK(codes("v_proj").const_data_ptr<uint8_t>() == codes("k_proj").const_data_ptr<uint8_t>() + codes("k_proj").numel());
  const auto decoder = weights.decoder("fused"), in_blocks = blocks.decoder("fused");
  for (const std::vector<int32_t>& prompt : prompts(5, weights.model.spec.vocab_size))
    CHECK(at::equal(in_blocks->next_logits({{static_cast<int64_t>(prompt.size()), prompt}}),
                    decoder->next_logits({{static_cast<int64_t>(prompt.size()), prompt}})));
}

TEST_CASE("fused decodes to the reference's logits, in bf16 no further from fp32 than it") {
  at::set_num_threads(2);
  const std::string variant = GENERATE("", "qwen3-next", "qwen3-5");
  const Loaded exact(at::kFloat, variant), narrow(at::kBFloat16, variant);
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
  const Loaded loaded(at::kFloat, GENERATE("", "qwen3-next"));
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

TEST_CASE("what may follow is looked up where the last tokens stood before") {
  using Ids = std::vector<int32_t>;
  CHECK(look_up({1, 2, 3, 9, 8, 7, 1, 2, 3}, 2) == Ids{9, 8});
  CHECK(look_up({4, 2, 3, 9, 8, 1, 2, 3, 5, 6, 1, 2, 3}, 3) == Ids{5, 6, 1});  // three tokens, the latest place
  CHECK(look_up({1, 2, 3, 9, 5, 2, 3, 8, 1, 2, 3}, 1) == Ids{9});              // three before two that stood later
  CHECK(look_up({0, 2, 3, 9, 7, 2, 3}, 4) == Ids{9, 7, 2, 3});
  CHECK(look_up({5, 5, 5}, 4) == Ids{5, 5, 5, 5});  // continues with itself
  CHECK(look_up({7, 1, 2, 1, 2}, 5) == Ids{1, 2, 1, 2, 1});
  for (const Ids& held : {Ids{}, Ids{3}, Ids{3, 3}, Ids{3, 1, 3}, Ids{1, 2, 3, 4, 5}}) CHECK(look_up(held, 4).empty());
  CHECK(look_up({5, 5, 5}, 0).empty());
}

TEST_CASE("several tokens of a sequence at once have the logits that they have one by one, and can be taken back") {
  at::set_num_threads(2);
  const std::string variant = GENERATE("", "qwen3-next");
  const Loaded loaded(at::kFloat, variant);
  const auto all = prompts(5, loaded.model.spec.vocab_size);
  const std::string provider = GENERATE("fused", "reference");
  const auto one = loaded.decoder(provider), many = loaded.decoder(provider);
  const auto same = [&](const at::Tensor& a, const at::Tensor& b) {
    return provider == "fused" ? at::equal(a, b) : at::allclose(a, b, 1e-4, 1e-5);
  };
  std::vector<NewTokens> begin;
  for (size_t i = 0; i < all.size(); ++i) begin.push_back({static_cast<int64_t>(i), all[i]});
  CHECK(same(one->next_logits(begin).clone(), many->next_logits(begin)));
  for (int32_t step = 0; step < 20; ++step) {  // past the end of a page
    std::vector<NewTokens> right, guessed;
    for (int32_t i = 0; i < 5; ++i) {
      right.push_back({i, {}});
      for (int32_t t = 0; t <= (i + step) % 5; ++t) right.back().ids.push_back((11 * step + 5 * i + t) % 90);
      guessed.push_back(right.back());
      for (int32_t t = 0; many->forgets() && t < (2 * i + step) % 4; ++t) guessed.back().ids.push_back(3);
    }
    const at::Tensor logits = many->next_logits(guessed).clone();
    int64_t row = 0;
    for (size_t i = 0; i < right.size(); ++i) {
      for (size_t t = 0; t < right[i].ids.size(); ++t) {
        INFO(provider << ", step " << step << ", sequence " << i << ", token " << t);
        REQUIRE(same(one->next_logits({{right[i].sequence, {right[i].ids[t]}}})[0], logits[row++]));
      }
      const auto wrong = static_cast<int64_t>(guessed[i].ids.size() - right[i].ids.size());
      row += wrong;
      if (wrong > 0) many->forget(right[i].sequence, wrong);
    }
    REQUIRE(row == logits.size(0));
  }
}

namespace {

struct Drawn {
  std::vector<int32_t> ids;
  std::vector<float> logps;
  TextEnd reason = TextEnd::length;
  int32_t stop_id = -1;
  float stop_logp = 0;
  int64_t stop_tokens = 0;
  bool operator==(const Drawn&) const = default;
};

std::vector<Drawn> draws(Decoder& decoder, const std::vector<std::vector<int32_t>>& prompts, const SamplingConfig& config,
                         const GenerationRoom& room, GenerationStats& stats) {
  std::vector<Drawn> all(prompts.size() * static_cast<size_t>(config.samples));
  stats = generate(decoder, prompts, config, room,
                   {.token =
                        [&](int64_t text, int32_t id, float logp) {
                          all[static_cast<size_t>(text)].ids.push_back(id);
                          all[static_cast<size_t>(text)].logps.push_back(logp);
                          return id != 17;  // the listener may end a text, too
                        },
                    .end =
                        [&](int64_t text, const GenerationEnd& end) {
                          Drawn& drawn = all[static_cast<size_t>(text)];
                          drawn.reason = end.reason, drawn.stop_id = end.stop_id, drawn.stop_logp = end.stop_logp;
                          drawn.stop_tokens = end.stop_tokens;
                        }});
  return all;
}

}  // namespace

TEST_CASE("guessed tokens change no token and no log-probability in fp32") {
  at::set_num_threads(2);
  const Loaded loaded(at::kFloat);
  std::vector<std::vector<int32_t>> repetitive;
  for (size_t i = 0; i < 4; ++i) {
    repetitive.emplace_back();
    for (size_t t = 0; t < 20 + 13 * i; ++t) repetitive.back().push_back(static_cast<int32_t>(3 + i + t % (2 + i)));
  }
  SamplingConfig config{.max_new_tokens = 70, .seed = 5, .samples = 3};
  config.temperature = GENERATE(0.0, 0.3);
  for (int64_t text = 0; text < 12; ++text) {
    config.streams.push_back(static_cast<uint64_t>(100 + 7 * text));
    config.limits.push_back(70 - 3 * text);
  }
  GenerationStats plain, stats;
  const auto free = draws(*loaded.decoder("fused"), repetitive, config, {12, 2048}, plain);
  CHECK(plain.guessed == 0);
  // The stops are a pair and a token that some texts have, so that they end inside the guessed
  // tokens.
  const bool stops = GENERATE(false, true);
  if (stops) {
    config.stop_sequences = {{free[0].ids[40], free[0].ids[41]}, {1, 2, 3, 4, 5, 6}};
    config.stop_ids = {free[4].ids[20]};
    config.repetition_penalty = 1.02;
  }
  const auto wanted = draws(*loaded.decoder("fused"), repetitive, config, {12, 2048}, plain);
  int64_t right = 0, wrong = 0;
  for (const int64_t most : {1, 4, 64})
    for (const GenerationRoom& room : {GenerationRoom{12, 2048}, GenerationRoom{3, 1}, GenerationRoom{40, 40}}) {
      INFO("temperature " << config.temperature << ", " << most << " guessed, " << room.sequences << " at once, stops " << stops);
      config.lookup_tokens = most;
      const bool same = draws(*loaded.decoder("fused"), repetitive, config, room, stats) == wanted;
      CHECK(same);
      CHECK(stats.tokens == plain.tokens);
      CHECK(stats.guessed_right <= stats.guessed);
      right += stats.guessed_right, wrong += stats.guessed - stats.guessed_right;
    }
  CHECK(wrong > 0);
  CHECK(right > 0);
}

TEST_CASE("only the new tokens of a prompt that continues what is kept are computed") {
  at::set_num_threads(2);
  const Loaded loaded(at::kFloat);
  const std::string provider = GENERATE("fused", "reference");
  SamplingConfig config{.max_new_tokens = 30, .temperature = 0.7};
  config.lookup_tokens = GENERATE(0, 5);
  INFO(provider << ", " << config.lookup_tokens << " guessed");
  const auto keeps = loaded.decoder(provider);
  KeptTokens kept;
  std::vector<int32_t> prompt = prompts(4, loaded.model.spec.vocab_size)[3];
  size_t held = 0;
  // The turns: continues, continues for more than a page, the same again, an earlier position,
  // another beginning, one token.
  for (int turn = 0; turn < 7; ++turn) {
    INFO("turn " << turn);
    if (turn == 4) prompt.resize(20), prompt.push_back(11);
    if (turn == 5) prompt[0] ^= 1;
    if (turn == 6) prompt = {9};
    const auto common = static_cast<size_t>(std::mismatch(kept.ids.begin(), kept.ids.end(), prompt.begin(), prompt.end()).first - kept.ids.begin());
    std::vector<int32_t> text, wanted = answers(*loaded.decoder(provider), {prompt}, config)[0].ids;
    const GenerationStats stats = generate(*keeps, {prompt}, config, {},
                                           {.token = [&](int64_t, int32_t id, float) { text.push_back(id); return text.size() != 23; },
                                            .end = [](int64_t, const GenerationEnd&) {}}, &kept);
    wanted.resize(std::min<size_t>(wanted.size(), 23));
    CHECK(text == wanted);
    CHECK(stats.prompt_tokens == static_cast<int64_t>(prompt.size() - std::min(common, prompt.size() - 1)));
    held = std::max(held, common);
    if (turn == 2) continue;
    prompt.insert(prompt.end(), text.begin(), text.end());
    for (int i = 0; i < (turn == 1 ? 90 : 6); ++i) prompt.push_back((5 * i + turn) % 300);
  }
  CHECK(held > 100);
}

TEST_CASE("a chat with states goes on from what is kept where its prompt does, and begins anew elsewhere") {
  at::set_num_threads(2);
  const Loaded loaded(at::kFloat, "qwen3-next");
  const std::string provider = GENERATE("fused", "reference");
  INFO(provider);
  const SamplingConfig config{.max_new_tokens = 12};
  const auto keeps = loaded.decoder(provider);
  KeptTokens kept;
  std::vector<int32_t> prompt{3, 1, 4, 1, 5, 9, 2, 6};
  for (int turn = 0; turn < 5; ++turn) {
    INFO("turn " << turn);
    if (turn == 3) prompt.resize(10);  // an earlier position
    const bool goes_on = turn > 0 && std::equal(kept.ids.begin(), kept.ids.end(), prompt.begin(), prompt.begin() + static_cast<std::ptrdiff_t>(std::min(kept.ids.size(), prompt.size())));
    CHECK(goes_on == (turn != 0 && turn != 3));
    const auto held = kept.ids.size();
    std::vector<int32_t> text;
    const std::vector<int32_t> wanted = answers(*loaded.decoder(provider), {prompt}, config)[0].ids;
    const GenerationStats stats = generate(*keeps, {prompt}, config, {},
                                           {.token = [&](int64_t, int32_t id, float) { return text.push_back(id), true; },
                                            .end = [](int64_t, const GenerationEnd&) {}}, &kept);
    CHECK(text == wanted);
    CHECK(stats.prompt_tokens == static_cast<int64_t>(turn == 0 || turn == 3 ? prompt.size() : prompt.size() - held));
    prompt.insert(prompt.end(), text.begin(), text.end());
    for (int i = 0; i < 70; ++i) prompt.push_back((5 * i + turn) % 300);
  }
  CHECK_FALSE(keeps->forgets());
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
  KvCache cache(spec, at::kFloat, at::kCPU);
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
  cache.shorten(2, kCachePage + 1);  // both pages after the first
  CHECK(cache.length(2) == kCachePage);
  cache.extend(3, 1);
  CHECK(cache.shape({3}).pages[0] == first[1]);
  CHECK_THROWS(cache.shorten(3, 1));
}
