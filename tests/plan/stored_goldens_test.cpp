// Compares matrices that quantisers stored with what their own libraries decode
// (tests/parity/make_stored_goldens.py), and refuses such files with parts that are missing or do
// not fit.
#include <algorithm>
#include <functional>

#include "core/lib/io/json.h"
#include "core/lib/io/safetensors.h"
#include "core/model/families/stored_config.h"
#include "core/model/stored/dequantised_file.h"
#include "tests/test.h"

using namespace forge;

namespace {

const std::string kStoredGoldens = std::string(FORGE_SOURCE_DIR) + "/tests/parity/goldens/stored-";
const std::vector<std::string> kForms{"bnb-4bit", "bnb-8bit", "fp8",    "compressed-tensors",
                                      "awq",      "gptq-2",   "gptq-3", "gptq-4",
                                      "gptq-8",   "gptq-v2", "nvfp4",   "nvfp4-modelopt"};

StoredScheme scheme_of(const SafetensorsFile& file) {
  const std::string text = file.metadata().at("quantization_config");
  return stored_scheme_of(
      {{"quantization_config", parse_json(text, "golden", ErrorKind::internal)}});
}

std::vector<float> values_at(const TensorFile& file, size_t index) {
  std::vector<float> values(static_cast<size_t>(file.tensors()[index].count()));
  file.read_f32(index, values.data());
  return values;
}

// Returns the file of a form without its `dropped` tensors, and with other shapes where `reshape`
// gives one.
using Reshape = std::function<void(TensorInfo& tensor)>;
std::unique_ptr<TensorFile> changed(const std::string& form, const TemporaryFolder& folder,
                                    const std::string& dropped, const Reshape& reshape = {}) {
  const auto file = open_safetensors(kStoredGoldens + form + ".safetensors");
  std::vector<SafetensorsEntry> entries;
  for (size_t i = 0; i < file->tensors().size(); ++i) {
    SafetensorsEntry entry{file->tensors()[i], file->bytes(i)};
    if (entry.info.name == dropped) continue;
    if (reshape) reshape(entry.info);
    entry.bytes =
        entry.bytes.substr(0, static_cast<size_t>(bytes_of(entry.info.dtype, entry.info.count())));
    entries.push_back(entry);
  }
  write_safetensors(folder.path("model.safetensors"), entries);
  return dequantised(open_safetensors(folder.path("model.safetensors")), scheme_of(*file), "m");
}

}  // namespace

TEST_CASE("stored matrices are read as their own libraries decode them, whole and by rows") {
  for (const std::string& form : kForms) {
    const auto stored = open_safetensors(kStoredGoldens + form + ".safetensors");
    const StoredScheme scheme = scheme_of(*stored);
    const auto file = dequantised(open_safetensors(kStoredGoldens + form + ".safetensors"), scheme);
    const auto expected = open_safetensors(kStoredGoldens + form + "-expected.safetensors");
    CHECK(file->tensors().size() == expected->tensors().size());
    for (size_t i = 0; i < file->tensors().size(); ++i) {
      const TensorInfo& tensor = file->tensors()[i];
      INFO(form << " " << tensor.name);
      const int64_t index = expected->find(tensor.name);
      REQUIRE(index >= 0);
      REQUIRE(tensor.shape == expected->tensors()[static_cast<size_t>(index)].shape);
      const std::vector<float> want = values_at(*expected, static_cast<size_t>(index));
      CHECK(values_at(*file, i) == want);
      CHECK(file->bytes_are_values(i) == (tensor.name == "norm.weight"));
      const int64_t row = tensor.count() / tensor.rows(), first = tensor.rows() / 2;
      std::vector<float> rows(static_cast<size_t>(2 * row));
      file->read_rows_f32(i, first, 2, rows.data());
      CHECK(std::equal(rows.begin(), rows.end(), want.begin() + first * row));
    }
  }
}

TEST_CASE("a stored matrix without one of its parts is refused by name") {
  // Parts without which the others still say everything.
  const std::vector<std::string> dispensable{"weight_format", "input_scale", "input_global_scale",
                                             "weight_g_idx", "norm.weight"};
  for (const std::string& form : kForms) {
    const auto file = open_safetensors(kStoredGoldens + form + ".safetensors");
    for (const TensorInfo& tensor : file->tensors()) {
      if (std::any_of(dispensable.begin(), dispensable.end(),
                      [&](const std::string& part) { return tensor.name.ends_with(part); }))
        continue;
      INFO(form << " without " << tensor.name);
      const TemporaryFolder folder;
      const std::string error = error_of([&] { changed(form, folder, tensor.name); });
      CHECK_THAT(error, Catch::StartsWith("m: tensor "));
      CHECK_THAT(error, Catch::Contains(tensor.name.substr(0, tensor.name.find('.'))));
    }
  }
}

TEST_CASE("a stored matrix with a part of another shape is refused") {
  for (const std::string& form : kForms) {
    const auto file = open_safetensors(kStoredGoldens + form + ".safetensors");
    for (const TensorInfo& tensor : file->tensors()) {
      const bool passed =
          tensor.name.ends_with("norm.weight") || tensor.name.ends_with("input_scale");
      if (passed || tensor.count() < 2) continue;
      INFO(form << " with less of " << tensor.name);
      const TemporaryFolder folder;
      // A matrix of another shape is still consistent, and is not the model's.
      const std::string error = error_of([&] {
        const auto less = changed(form, folder, "", [&](TensorInfo& part) {
          if (part.name == tensor.name)
            --part.shape.back(), part.shape[0] -= part.shape.back() == 0;
        });
        const int64_t index = less->find(tensor.name);
        if (index >= 0 && less->tensors()[static_cast<size_t>(index)].shape != tensor.shape)
          throw Error(ErrorKind::environment, "another shape");
      });
      CHECK(error != "no error");
    }
  }
}

TEST_CASE("states of bitsandbytes that are no states are refused") {
  const TemporaryFolder folder;
  const std::string codes(32, '\0'), absmax(4, '\0'), map(64, '\0');
  const auto error_with = [&](const std::string& state) {
    write_safetensors(
        folder.path("model.safetensors"),
        {{{"w", {32, 1}, DType::u8}, codes},
         {{"w.absmax", {1}, DType::f32}, absmax},
         {{"w.quant_map", {16}, DType::f32}, map},
         {{"w.quant_state.bitsandbytes__nf4", {static_cast<int64_t>(state.size())}, DType::u8},
          state}});
    return error_of(
        [&] { dequantised(open_safetensors(folder.path("model.safetensors")), {}, "m"); });
  };
  const auto state = [](const std::string& shape, const std::string& more = "") {
    return R"({"quant_type": "nf4", "blocksize": 64, "dtype": "bfloat16", "shape": )" + shape +
           more + "}";
  };
  CHECK_THAT(error_with("{"), Catch::Contains("w.quant_state.bitsandbytes__nf4"));
  CHECK_THAT(error_with("[1]"), Catch::Contains("not a JSON object"));
  CHECK_THAT(error_with(state("[8]")), Catch::Contains("shape is [8], expected the two sizes"));
  CHECK_THAT(error_with(state("[8, -8]")), Catch::Contains("expected the two sizes"));
  CHECK_THAT(error_with(state("[2147483647, 2147483647]")),
             Catch::Contains("32 bytes of codes, expected"));
  CHECK_THAT(error_with(state("[8, 8]")), Catch::Contains("is not the map of nf4"));
  CHECK_THAT(error_with(state("[8, 8]", R"(, "blocksize": 0)")), Catch::Contains("blocksize"));
  CHECK_THAT(error_with(R"({"quant_type": "fp4"})"), Catch::Contains("the tensor's name says nf4"));
}

TEST_CASE(
    "modules that transformers keeps out of codes are told by their beginning, an expression or "
    "their end") {
  const KeptModules kept(
      {"lm_head", "model.layers.1.mlp", "model.layers.\\d+.self_attn.q_proj", "down_proj"});
  for (const char* module :
       {"lm_head", "model.layers.1.mlp.up_proj", "model.layers.12.self_attn.q_proj",
        "model.layers.0.mlp.down_proj", "model.layers.1.mlp"})
    CHECK(kept.has(module));
  for (const char* module :
       {"model.layers.0.mlp.up_proj", "model.layers.2.self_attn.k_proj", "head"})
    CHECK_FALSE(kept.has(module));
  CHECK_FALSE(KeptModules({}).has("lm_head"));
}

TEST_CASE(
    "compressed-tensors: the group that names a module comes before that of all linear layers") {
  const Json four{{"targets", {"Linear"}},
                  {"weights", {{"num_bits", 4}, {"strategy", "group"}, {"group_size", 32}}}};
  const Json eight{{"targets", {"re:model\\.layers\\.\\d+\\.mlp"}},
                   {"weights", {{"num_bits", 8}, {"symmetric", false}}}};
  const auto scheme_with = [&](const Json& more) {
    Json config{{"quant_method", "compressed-tensors"},
                {"format", "pack-quantized"},
                {"config_groups", {{"a", four}, {"b", eight}}},
                {"ignore", {"lm_head", "re:.*gate$"}}};
    config.update(more);
    const Json whole{{"quantization_config", config}};
    Settings settings(whole, "c");
    const StoredScheme scheme = read_stored_scheme(settings);
    settings.finish([](const std::string&) { return false; });
    return scheme;
  };
  const StoredScheme scheme = scheme_with(Json::object());
  CHECK(scheme.group_of("model.layers.3.mlp.up_proj")->bits == 8);
  CHECK_FALSE(scheme.group_of("model.layers.3.mlp.up_proj")->symmetric);
  CHECK(scheme.group_of("model.layers.3.self_attn.q_proj")->bits == 4);
  CHECK(scheme.ignores("lm_head"));
  CHECK(scheme.ignores("model.layers.0.mlp.gate"));
  CHECK_FALSE(scheme.ignores("model.layers.0.mlp.gate_proj"));
  const auto refusal = [&](const Json& more) { return error_of([&] { scheme_with(more); }); };
  CHECK_THAT(refusal({{"format", "mxfp4-pack-quantized"}}),
             Catch::Contains("format is mxfp4-pack-quantized"));
  CHECK_THAT(refusal({{"quantization_status", "frozen"}}),
             Catch::Contains("quantization_status is frozen"));
  CHECK_THAT(refusal({{"sparsity_config", {{"format", "sparse-24-bitmask"}}}}),
             Catch::Contains("sparsity_config"));
  CHECK_THAT(
      refusal({{"config_groups", {{"a", {{"weights", {{"num_bits", 4}, {"type", "float"}}}}}}}}),
      Catch::Contains("group_size is 0 of floats of 4 bits"));
  CHECK_THAT(
      refusal({{"config_groups", {{"a", {{"weights", {{"num_bits", 6}, {"type", "float"}}}}}}}}),
      Catch::Contains("num_bits is 6 of type float"));
  CHECK_THAT(refusal({{"ignore", {"re:("}}}), Catch::Contains("not a regular expression"));
}

TEST_CASE(
    "codes of a module that config.json leaves out, and codes that it does not speak of, are "
    "refused") {
  const TemporaryFolder folder;
  const std::string codes(64, '\1'), scale(4, '\0');
  write_safetensors(folder.path("model.safetensors"),
                    {{{"lm_head.weight", {8, 8}, DType::i8}, codes},
                     {{"lm_head.weight_scale", {1}, DType::f32}, scale}});
  const auto open = [&](const Json& config) {
    return error_of([&] {
      dequantised(open_safetensors(folder.path("model.safetensors")),
                  stored_scheme_of({{"quantization_config", config}}), "m");
    });
  };
  const Json config{{"quant_method", "compressed-tensors"}, {"ignore", {"lm_head"}}};
  CHECK_THAT(open(config), Catch::Contains("tensor lm_head.weight holds codes, but config.json's "
                                           "quantization_config ignores its module"));
  CHECK(open({{"quant_method", "compressed-tensors"}}) == "no error");
  write_safetensors(folder.path("model.safetensors"), {{{"q.qweight", {2, 8}, DType::i32}, codes}});
  CHECK_THAT(open({{"quant_method", "gptq"}, {"bits", 4}}),
             Catch::Contains("q.qweight holds codes without their scales"));
  CHECK_THAT(open({{"quant_method", "bitsandbytes"}}),
             Catch::Contains("nothing in the file says what they stand for"));
}

TEST_CASE("codes of one library under the config.json of another, or of none, are refused") {
  const auto open = [](const std::string& form, const Json& config) {
    const Json whole = config.is_null() ? Json::object() : Json{{"quantization_config", config}};
    return error_of([&] {
      dequantised(open_safetensors(kStoredGoldens + form + ".safetensors"), stored_scheme_of(whole),
                  "m");
    });
  };
  CHECK_THAT(open("bnb-4bit", {{"quant_method", "awq"}, {"bits", 4}}),
             Catch::Contains("is one of bitsandbytes, and config.json names another"));
  CHECK_THAT(open("bnb-8bit", {{"quant_method", "compressed-tensors"}}),
             Catch::Contains("is one of bitsandbytes, and config.json names another"));
  CHECK(open("bnb-4bit", nullptr) == "no error");
  const std::string blocks =
      std::string(FORGE_SOURCE_DIR) + "/tests/parity/goldens/blocks.safetensors";
  for (const char* method : {"mxfp4", "fp8"})
    CHECK(error_of([&] {
            dequantised(open_safetensors(blocks),
                        stored_scheme_of({{"quantization_config", {{"quant_method", method}}}}));
          }) == "no error");
  CHECK_THAT(open("gptq-4", nullptr),
             Catch::Contains("codes of GPTQ or AWQ, and config.json has no"));
  CHECK_THAT(open("awq", {{"quant_method", "gptq"}, {"bits", 4}, {"group_size", 32}}),
             Catch::Contains("m: tensor "));
  CHECK_THAT(open("gptq-4", {{"quant_method", "bitsandbytes"}}), Catch::Contains("qweight"));
}

TEST_CASE("settings of GPTQ and AWQ that mean another layout are refused by name") {
  const auto refusal = [](Json config) {
    const Json whole{{"quantization_config", std::move(config)}};
    return error_of([&] {
      Settings settings(whole, "c");
      read_stored_scheme(settings);
      settings.finish([](const std::string&) { return false; });
    });
  };
  CHECK(refusal({{"quant_method", "gptq"}, {"bits", 3}, {"group_size", -1}, {"desc_act", true}}) ==
        "no error");
  CHECK_THAT(refusal({{"quant_method", "gptq"}}), Catch::Contains("bits"));
  CHECK_THAT(refusal({{"quant_method", "gptq"}, {"bits", 5}}), Catch::Contains("bits is 5"));
  CHECK_THAT(refusal({{"quant_method", "gptq"}, {"bits", 4}, {"checkpoint_format", "marlin"}}),
             Catch::Contains("checkpoint_format is marlin"));
  CHECK_THAT(
      refusal(
          {{"quant_method", "gptq"}, {"bits", 4}, {"dynamic", {{"-:lm_head", Json::object()}}}}),
      Catch::Contains("dynamic"));
  CHECK_THAT(refusal({{"quant_method", "awq"}, {"bits", 4}, {"version", "gemv"}}),
             Catch::Contains("version is gemv"));
  CHECK_THAT(refusal({{"quant_method", "awq"}, {"bits", 8}}), Catch::Contains("bits is 8"));
  CHECK_THAT(refusal({{"quant_method", "fp8"}, {"weight_block_size", {128}}}),
             Catch::Contains("weight_block_size"));
}
