// The entry of a GoogleTest library that an interpreter loads: see run_gtest.py beside this file.
#include <gtest/gtest.h>

extern "C" __attribute__((visibility("default"))) int framejit_run_gtests(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
