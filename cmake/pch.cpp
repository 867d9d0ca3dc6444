// A library that owns a precompiled header needs a source: toolchain.cmake, torch.cmake.
