struct kernel_5e6a4786c3d482f0b1730d55bbf04dfa_arguments {
  long long count;
  char* buffers[3];
  long long sizes[2];
  long long strides[3][2];
};
extern "C" __global__ void __launch_bounds__(256) kernel_5e6a4786c3d482f0b1730d55bbf04dfa(const kernel_5e6a4786c3d482f0b1730d55bbf04dfa_arguments a) {
  for (unsigned at = blockIdx.x * (unsigned)blockDim.x + threadIdx.x; at < a.count; at += gridDim.x * (unsigned)blockDim.x) {
    unsigned rest = at;
    const unsigned i1 = rest % (unsigned)a.sizes[1];
    rest /= (unsigned)a.sizes[1];
    const unsigned i0 = rest;
    char* const p0 = a.buffers[0] + (long long)i0 * a.strides[0][0] + (long long)i1 * 4;
    char* const p1 = a.buffers[1] + (long long)i0 * a.strides[1][0] + (long long)i1 * 4;
    char* const p2 = a.buffers[2] + (long long)i0 * a.strides[2][0] + (long long)i1 * 4;
    const float v0 = fj::load<float>(p0);
    const float v1 = fj::f32(0x0u);
    const float v2 = fj::maximum(v0, v1);
    const float v3 = fj::load<float>(p1);
    const float v4 = fj::multiply(v2, v3);
    const float v5 = fj::f32(0x40000000u);
    const float v6 = fj::add(v4, v5);
    fj::store<float>(p2, v6);
  }
}
