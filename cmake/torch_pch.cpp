// Exists to own the precompiled header of cmake/torch.cmake.
