// For programs that link code instrumented for the fuzz driver and do not look at its coverage.
extern "C" void __sanitizer_cov_trace_pc() {}
