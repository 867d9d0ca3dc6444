// A library that owns a precompiled header needs a source file (toolchain.cmake, torch.cmake).
