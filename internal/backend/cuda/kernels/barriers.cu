// Barriers in shared memory, and copies of rows that end on them.

__device__ __forceinline__ void bar_init(u32 bar, int n) { asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(bar), "r"(n)); }
__device__ __forceinline__ void bar_arrive(u32 bar) { asm volatile("{\n.reg .b64 state;\nmbarrier.arrive.shared::cta.b64 state, [%0];\n}" ::"r"(bar) : "memory"); }
__device__ __forceinline__ void bar_wait(u32 bar, int phase) {
  u32 done;
#if __CUDA_ARCH__ >= 900
  do asm volatile("{\n.reg .pred p;\nmbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\nselp.u32 %0, 1, 0, p;\n}\n" : "=r"(done) : "r"(bar), "r"(phase) : "memory");
#else
  do asm volatile("{\n.reg .pred p;\nmbarrier.test_wait.parity.shared::cta.b64 p, [%1], %2;\nselp.u32 %0, 1, 0, p;\n}\n" : "=r"(done) : "r"(bar), "r"(phase) : "memory");
#endif
  while (!done);
}
// Makes barriers that were initialized known to the engine that copies.
__device__ __forceinline__ void bars_ready() {
#if __CUDA_ARCH__ >= 900
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
#endif
}
#if __CUDA_ARCH__ >= 900
__device__ __forceinline__ void bar_expect(u32 bar, int bytes) { asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(bar), "r"(bytes) : "memory"); }
#endif

// Each lane of a warp copies its own bytes, a multiple of 16, and arrives at a barrier
// that waits for them: on compute capability 9.0 by one request per lane, before it by
// all lanes together. Lanes without bytes arrive too.
__device__ __forceinline__ void copy_lanes(u32 to, u64 from, int bytes, u32 bar) {
#if __CUDA_ARCH__ >= 900
  bar_expect(bar, bytes);
  if (bytes) asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to), "l"(from), "r"(bytes), "r"(bar) : "memory");
#else
  int lane = threadIdx.x % 32;
#pragma unroll 1
  for (int l = 0; l < 32; l++) {
    u64 src = __shfl_sync(~0u, from, l);
    u32 dst = __shfl_sync(~0u, to, l), n = __shfl_sync(~0u, bytes, l);
    for (u32 i = 16 * lane; i < n; i += 512) asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(dst + i), "l"(src + i) : "memory");
  }
  __threadfence_block(); // what the lane wrote itself is there too
  asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::"r"(bar) : "memory");
#endif
}
