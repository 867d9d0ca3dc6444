extern "C" int in_cufile() { return 0; }
