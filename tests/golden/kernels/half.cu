struct kernel_7ca280a78ef3b110d903c2c9b07c23ba_arguments {
  long long count;
  char* buffers[2];
  long long sizes[1];
  long long strides[2][1];
};
extern "C" __global__ void __launch_bounds__(256) kernel_7ca280a78ef3b110d903c2c9b07c23ba(const kernel_7ca280a78ef3b110d903c2c9b07c23ba_arguments a) {
  for (unsigned at = blockIdx.x * (unsigned)blockDim.x + threadIdx.x; at < a.count; at += gridDim.x * (unsigned)blockDim.x) {
    unsigned rest = at;
    const unsigned i0 = rest;
    char* const p0 = a.buffers[0] + (long long)i0 * 2;
    char* const p1 = a.buffers[1] + (long long)i0 * 1;
    const float v0 = fj::load_bf16(p0);
    const float v1 = fj::multiply(v0, v0);
    const float v2 = fj::round_bf16(v1);
    const float v3 = fj::f32(0x3dcccccdu);
    const float v4 = fj::round_bf16(v3);
    const bool v5 = v2 > v4;
    fj::store_bool(p1, v5);
  }
}
