#include "core/plan/memory/product_scratch.h"

#include <cstdlib>

#include "providers/fused/fused_plan.h"
#include "tests/test.h"

namespace forge {
namespace {

struct Row {
  Product product;
  int64_t threads, bytes;
};

void check(InstructionSet set, const std::vector<Row>& rows) {
  for (const auto& [product, threads, bytes] : rows) {
    INFO(name_of(set) << ", " << product.rows << " × " << product.inner << " × " << product.columns << ", "
                      << threads << " threads");
    CHECK(ProductScratch(set, threads).bytes(product) == bytes);
  }
}

// Restores an environment variable.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) {
    if (const char* old = std::getenv(name)) before_ = old;
    value ? ::setenv(name, value, 1) : ::unsetenv(name);
  }
  ~Variable() { before_ ? ::setenv(name_, before_->c_str(), 1) : ::unsetenv(name_); }
  Variable(const Variable&) = delete;

 private:
  const char* name_;
  std::optional<std::string> before_;
};

}  // namespace

// The bytes that LibTorch 2.11's allocator handed out for these products; tests/engine measures
// them again.
TEST_CASE("what a product in bf16 takes beside its result, by instruction set") {
  check(InstructionSet::avx2, {{{2048, 576, 1536}, 2, 0}});
  check(InstructionSet::avx512,
        {{{512, 64, 64}, 2, 131200}, {{8, 512, 64}, 2, 2176}, {{1000, 192, 1000}, 8, 4001920}});
  check(InstructionSet::avx512_bf16, {{{512, 64, 64}, 2, 149120},
                                      {{512, 64, 16}, 2, 50816},
                                      {{512, 16, 64}, 2, 140928},
                                      {{512, 64, 64, true}, 2, 214784},
                                      {{507, 64, 384}, 2, 104576},
                                      {{1024, 704, 256}, 2, 263808},
                                      {{1024, 704, 256, true}, 2, 1214208},
                                      {{8, 512, 64}, 2, 136832}});
}

TEST_CASE("no product takes less with more threads to share it") {
  for (InstructionSet set : {InstructionSet::avx512_bf16, InstructionSet::amx_bf16})
    for (int64_t threads : {1, 2, 7, 64}) {
      ProductScratch scratch(set, threads);
      for (int64_t rows : {1, 37, 512, 4096})
        for (int64_t inner : {1, 16, 576, 8192})
          for (bool transposed : {false, true}) {
            INFO(name_of(set) << " " << threads << " " << rows << " " << inner);
            // The scratch is at least the copied block of the second factor, for each active
            // thread.
            CHECK(scratch.bytes({rows, inner, 64, transposed}) >= 2 * 64 * std::min<int64_t>(inner, 32));
          }
    }
}

TEST_CASE("what was not measured on such a processor is marked in the plan") {
  ActivationShape shape;
  shape.spec.vocab_size = 256;
  shape.spec.hidden_size = shape.spec.intermediate_size = 64;
  shape.spec.num_layers = 1;
  shape.spec.num_heads = shape.spec.num_kv_heads = 4;
  shape.spec.head_dim = 16;
  shape.precision = shape.storage = Precision::bf16;
  shape.micro_batch_tokens = shape.supervised_tokens = shape.longest_sequence = 64;
  record_modules(shape, {});
  const auto formula = [&](InstructionSet set) {
    shape.instructions = set;
    for (const MemoryLine& line : fused_activation_lines(shape))
      if (line.name == "products") return line.formula;
    return std::string();
  };
  CHECK(formula(InstructionSet::avx2).empty());
  CHECK(formula(InstructionSet::avx512_bf16) ==
        "oneDNN's memory for a product in bf16 with avx512_bf16, 1 thread");
  CHECK_THAT(formula(InstructionSet::amx_bf16), Catch::Contains("not measured on such a processor"));
}

TEST_CASE("the processor is what the environment states, the least of its variables") {
  Variable forge("FORGE_CPU", nullptr), onednn("ONEDNN_MAX_CPU_ISA", nullptr),
      aten("ATEN_CPU_CAPABILITY", nullptr), mkl("MKL_ENABLE_INSTRUCTIONS", nullptr);
  CHECK_FALSE(stated_instructions());
  const auto stated = [](const char* by_forge, const char* by_onednn, const char* by_aten) {
    Variable a("FORGE_CPU", by_forge), b("ONEDNN_MAX_CPU_ISA", by_onednn), c("ATEN_CPU_CAPABILITY", by_aten);
    const auto found = stated_instructions();
    return found ? std::string(name_of(found->set)) + " by " + found->by : "nothing";
  };
  CHECK(stated("avx512", nullptr, nullptr) == "avx512 by FORGE_CPU=avx512");
  CHECK(stated("avx512", "AVX2_VNNI", nullptr) == "avx2 by ONEDNN_MAX_CPU_ISA=AVX2_VNNI");
  CHECK(stated(nullptr, "AVX512_CORE_VNNI", "avx512") == "avx512 by ONEDNN_MAX_CPU_ISA=AVX512_CORE_VNNI");
  CHECK(stated(nullptr, "AVX512_CORE_BF16", nullptr) == "avx512_bf16 by ONEDNN_MAX_CPU_ISA=AVX512_CORE_BF16");
  CHECK(stated(nullptr, "avx512_core", nullptr) == "avx512 by ONEDNN_MAX_CPU_ISA=avx512_core");
  CHECK(stated(nullptr, "AVX512_CORE_AMX", "avx512") == "nothing");
  CHECK(stated(nullptr, "ALL", "default") == "baseline by ATEN_CPU_CAPABILITY=default");
  CHECK_THAT(error_of([&] { stated("avx3", nullptr, nullptr); }),
             Catch::Contains("FORGE_CPU=avx3: expected baseline, avx2, avx512, avx512_bf16, amx_bf16"));
  Variable lower("FORGE_CPU", "avx2");
  hold_libraries_to_statement();
  CHECK(std::string(std::getenv("ONEDNN_MAX_CPU_ISA")) == "AVX2");
  CHECK(std::string(std::getenv("ATEN_CPU_CAPABILITY")) == "avx2");
}

}  // namespace forge
