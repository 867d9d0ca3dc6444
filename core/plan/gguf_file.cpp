#include "core/base/error.h"
#include "core/plan/gguf_spec.h"

namespace forge {

ModelSpec model_spec_of_gguf(const std::string& path) {
  throw Error(ErrorKind::environment, path + ": this build reads no GGUF files");
}

}  // namespace forge
