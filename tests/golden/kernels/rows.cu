struct kernel_e744731a4654c4ba2ed1e592e2c6b944_arguments {
  long long count;
  char* buffers[3];
  long long sizes[2];
  long long strides[3][2];
};
extern "C" __global__ void __launch_bounds__(256) kernel_e744731a4654c4ba2ed1e592e2c6b944(const kernel_e744731a4654c4ba2ed1e592e2c6b944_arguments a) {
  __shared__ unsigned long long shared[256];
  const unsigned line = threadIdx.y * blockDim.x;
  for (unsigned first = blockIdx.x * (unsigned)blockDim.y; first < a.count; first += gridDim.x * (unsigned)blockDim.y) {
    const bool live = first + threadIdx.y < a.count;
    const unsigned count = live ? (unsigned)a.sizes[1] : 0;
    unsigned rest = live ? first + threadIdx.y : (unsigned)0;
    const unsigned i0 = rest;
    char* const p0 = a.buffers[0] + (long long)i0 * a.strides[0][0];
    char* const p1 = a.buffers[1] + (long long)i0 * a.strides[1][0];
    char* const p2 = a.buffers[2] + (long long)i0 * a.strides[2][0];
    const float v3 = fj::f32(0x41000000u);
    const float v5 = fj::f32(0x3f800000u);
    float s2 = fj::f32(0x0u);
    for (unsigned e = threadIdx.x; e < count; e += blockDim.x) {
      const float v0 = fj::load<float>(p0 + (long long)e * 4);
      const float v1 = fj::multiply(v0, v0);
      s2 = fj::add(s2, v1);
    }
    float v2;
    {
      float* const t = reinterpret_cast<float*>(shared) + line;
      t[threadIdx.x] = s2;
      __syncthreads();
      for (unsigned half = blockDim.x / 2; half > 0; half /= 2) {
        if (threadIdx.x < half) t[threadIdx.x] = fj::add(t[threadIdx.x], t[threadIdx.x + half]);
        __syncthreads();
      }
      v2 = t[0];
      __syncthreads();
    }
    const float v4 = v2 / v3;
    const float v6 = fj::sqrt(v4);
    const float v7 = v5 / v6;
    for (unsigned e = threadIdx.x; e < count; e += blockDim.x) {
      const float v0 = fj::load<float>(p0 + (long long)e * 4);
      const float v8 = fj::multiply(v0, v7);
      const float v9 = fj::load<float>(p1 + (long long)e * 4);
      const float v10 = fj::multiply(v8, v9);
      fj::store<float>(p2 + (long long)e * 4, v10);
    }
  }
}
