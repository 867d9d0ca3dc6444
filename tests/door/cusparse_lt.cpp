extern "C" int in_cusparse_lt() { return 0; }
