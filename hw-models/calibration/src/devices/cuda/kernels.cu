// Kernels that are timed. No header is included: NVRTC is often installed without any.

typedef unsigned int u32;
typedef unsigned long long u64;
typedef unsigned char u8;

// Launches.

extern "C" __global__ void empty_1(u64) {}
extern "C" __global__ void empty_4(u64, u64, u64, u64) {}
extern "C" __global__ void empty_16(u64, u64, u64, u64, u64, u64, u64, u64, u64, u64, u64, u64, u64, u64, u64, u64) {}

// Turns for so many clocks of the SM.
extern "C" __global__ void spin(u64 clocks) {
    long long begun = clock64();
    while (clock64() - begun < (long long)clocks) {}
}

// Random numbers, the same each time: the output function of SplitMix64 (Steele, Lea and Flood, 2014).

__device__ u64 random(u64 at) {
    u64 z = (at + 1) * 0x9e3779b97f4a7c15ull;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
}

// From -1 to 1.
__device__ float uniform(u64 at) { return (float)(random(at) >> 40) * (2.0f / 16777216.0f) - 1.0f; }

// bfloat16 is the upper half of a float; rounded to nearest, to even.
__device__ u32 to_bf16(float x) {
    u32 bits = __float_as_uint(x);
    return (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
}

__device__ u32 to_fp16(float x) {
    unsigned short half;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(half) : "f"(x));
    return half;
}

// Each thread fills words of four bytes.
#define FILL(NAME, WORD)                                                          \
    extern "C" __global__ void NAME(u32* to, u64 words) {                         \
        u64 step = (u64)gridDim.x * blockDim.x;                                   \
        for (u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x; i < words; i += step) to[i] = WORD; \
    }

FILL(fill_fp32, __float_as_uint(uniform(i)))
FILL(fill_bf16, to_bf16(uniform(2 * i)) | to_bf16(uniform(2 * i + 1)) << 16)
FILL(fill_fp16, to_fp16(uniform(2 * i)) | to_fp16(uniform(2 * i + 1)) << 16)
// E4M3 without the upper bit of its exponent: no infinity, no NaN, nothing beyond 2.
FILL(fill_fp8, (u32)random(i) & 0xbfbfbfbfu)

// Passes over memory, as STREAM has them. Each thread takes four vectors of 16 bytes a block apart, loads before it stores, and
// bfloat16 is computed in fp32.

struct alignas(16) Vector { u32 word[4]; };

struct Fp32 {
    static __device__ u32 scale(u32 b, float s) { return __float_as_uint(s * __uint_as_float(b)); }
    static __device__ u32 add(u32 b, u32 c, float s) {
        return __float_as_uint(__uint_as_float(b) + s * __uint_as_float(c));
    }
};

struct Bf16 {
    static __device__ float low(u32 pair) { return __uint_as_float(pair << 16); }
    static __device__ float high(u32 pair) { return __uint_as_float(pair & 0xffff0000u); }
    static __device__ u32 pair(float low, float high) {
#if __CUDA_ARCH__ >= 800
        u32 both;
        asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
        return both;
#else
        return to_bf16(low) | to_bf16(high) << 16;
#endif
    }
    static __device__ u32 scale(u32 b, float s) { return pair(s * low(b), s * high(b)); }
    static __device__ u32 add(u32 b, u32 c, float s) {
        return pair(low(b) + s * low(c), high(b) + s * high(c));
    }
};

#define DEPTH 4

// a = b, or a = s b: one array is read.
template <class Element, bool SCALED>
__device__ void unary(Vector* a, const Vector* b, u64 vectors, float s) {
    u64 first = (u64)blockIdx.x * blockDim.x * DEPTH + threadIdx.x;
    Vector x[DEPTH];
#pragma unroll
    for (int d = 0; d < DEPTH; d++) {
        u64 i = first + (u64)d * blockDim.x;
        if (i < vectors) x[d] = b[i];
    }
#pragma unroll
    for (int d = 0; d < DEPTH; d++) {
        u64 i = first + (u64)d * blockDim.x;
        if (i >= vectors) continue;
        if (SCALED)
            for (int w = 0; w < 4; w++) x[d].word[w] = Element::scale(x[d].word[w], s);
        a[i] = x[d];
    }
}

// a = b + s c: two arrays are read.
template <class Element>
__device__ void binary(Vector* a, const Vector* b, const Vector* c, u64 vectors, float s) {
    u64 first = (u64)blockIdx.x * blockDim.x * DEPTH + threadIdx.x;
    Vector x[DEPTH], y[DEPTH];
#pragma unroll
    for (int d = 0; d < DEPTH; d++) {
        u64 i = first + (u64)d * blockDim.x;
        if (i < vectors) { x[d] = b[i]; y[d] = c[i]; }
    }
#pragma unroll
    for (int d = 0; d < DEPTH; d++) {
        u64 i = first + (u64)d * blockDim.x;
        if (i >= vectors) continue;
        for (int w = 0; w < 4; w++) x[d].word[w] = Element::add(x[d].word[w], y[d].word[w], s);
        a[i] = x[d];
    }
}

#define PASS(NAME, BODY) \
    extern "C" __global__ void NAME(Vector* a, const Vector* b, const Vector* c, u64 vectors, float s) { BODY; }

PASS(copy_fp32, (unary<Fp32, false>(a, b, vectors, s)))
PASS(copy_bf16, (unary<Bf16, false>(a, b, vectors, s)))
PASS(scale_fp32, (unary<Fp32, true>(a, b, vectors, s)))
PASS(scale_bf16, (unary<Bf16, true>(a, b, vectors, s)))
PASS(add_fp32, (binary<Fp32>(a, b, c, vectors, 1.0f)))
PASS(add_bf16, (binary<Bf16>(a, b, c, vectors, 1.0f)))
PASS(triad_fp32, (binary<Fp32>(a, b, c, vectors, s)))
PASS(triad_bf16, (binary<Bf16>(a, b, c, vectors, s)))

// Rows in memory of the host. Threads next to each other take words next to each other, so that a warp asks for 128 bytes at a
// time, of one row or of several. A row is in a random slot of its table, and begins at its start or at a random sector of it.

__device__ u32* word_of(u8* table, u64 slots, u64 slot, bool aligned, u64 seed, u64 row_words, u64 at) {
    u64 row = at / row_words, place = random(seed + row);
    u64 shift = aligned ? 0 : (place >> 62) * 32;
    return (u32*)(table + (place % slots) * slot + shift) + at % row_words;
}

__device__ u32 beyond_first_cache(const u32* at) {
    u32 word;
    asm volatile("ld.global.cg.u32 %0, [%1];" : "=r"(word) : "l"(at));
    return word;
}

extern "C" __global__ void read_rows(u8* table, u64 slots, u64 slot, u32 aligned, u64 seed, u64 row_words, u64 rows, u32* sums) {
    u64 step = (u64)gridDim.x * blockDim.x, words = rows * row_words;
    u32 sum = 0;
    for (u64 at = (u64)blockIdx.x * blockDim.x + threadIdx.x; at < words; at += step)
        sum += beyond_first_cache(word_of(table, slots, slot, aligned, seed, row_words, at));
    // What is never true, and the compiler cannot know.
    if (sum == 0x9e3779b9u) sums[0] = sum;
}

extern "C" __global__ void write_rows(u8* table, u64 slots, u64 slot, u32 aligned, u64 seed, u64 row_words, u64 rows, u32* sums) {
    u64 step = (u64)gridDim.x * blockDim.x, words = rows * row_words;
    for (u64 at = (u64)blockIdx.x * blockDim.x + threadIdx.x; at < words; at += step)
        *word_of(table, slots, slot, aligned, seed, row_words, at) = (u32)at;
}
