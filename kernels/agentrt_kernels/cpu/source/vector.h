// Sixteen lanes at a time, in the compilers' own vector types: they become whatever registers the
// machine has. bf16 is stored as its upper sixteen bits and computed in fp32.
#pragma once
#include <cstdint>
#include <cstring>
#if defined(__AVX512F__) || defined(__AVX2__)
#include <immintrin.h>
#endif

#define INLINE static inline __attribute__((always_inline))
#if defined(__clang__)
#define UNROLL _Pragma("unroll")
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif

constexpr int LANES = 16;

typedef float f32 __attribute__((vector_size(64)));
typedef int32_t i32 __attribute__((vector_size(64)));
typedef uint32_t u32 __attribute__((vector_size(64)));
typedef uint16_t u16 __attribute__((vector_size(32)));

// The same at any address.
typedef f32 f32_anywhere __attribute__((aligned(1), may_alias));
typedef u32 u32_anywhere __attribute__((aligned(1), may_alias));
typedef u16 u16_anywhere __attribute__((aligned(1), may_alias));

struct bf16 {
  uint16_t bits;
};

#if defined(__AVX512BF16__) && defined(__AVX512F__)
constexpr bool HAS_BF16_DOT = true;
#else
constexpr bool HAS_BF16_DOT = false;
#endif

// Whether a dot product of pairs is quicker than two products in fp32. Intel's cores begin one in two
// cycles, in which they make four products of sixteen fp32 each; AMD's begin one or two a cycle.
#if defined(SLOW_BF16_DOT)
constexpr bool QUICK_BF16_DOT = false;
#else
constexpr bool QUICK_BF16_DOT = HAS_BF16_DOT;
#endif

INLINE f32 all(float value) {
#if defined(__AVX512F__)
  return (f32)_mm512_set1_ps(value);
#else
  f32 v;
  UNROLL
  for (int i = 0; i < LANES; i++) v[i] = value;
  return v;
#endif
}

INLINE u32 all_bits(uint32_t value) {
#if defined(__AVX512F__)
  return (u32)_mm512_set1_epi32((int)value);
#else
  u32 v;
  UNROLL
  for (int i = 0; i < LANES; i++) v[i] = value;
  return v;
#endif
}

INLINE u32 load_bits(const void *from) { return *(const u32_anywhere *)from; }
INLINE void store_bits(void *to, u32 v) { *(u32_anywhere *)to = v; }

// Sixteen words of sixteen bits, widened with zeros.
INLINE u32 load_words(const void *from) {
#if defined(__AVX512F__)
  return (u32)_mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)from));
#else
  return __builtin_convertvector(*(const u16_anywhere *)from, u32);
#endif
}

// Words of two rows side by side, `one` in the lower halves: thirty-two of each.
INLINE void pair_words(u32 one, u32 two, uint32_t *to) {
  typedef uint16_t words __attribute__((vector_size(64)));
  words a = (words)one, b = (words)two;
  store_bits(to, (u32)__builtin_shufflevector(a, b, 0, 32, 1, 33, 2, 34, 3, 35, 4, 36, 5, 37, 6, 38,
                                              7, 39, 8, 40, 9, 41, 10, 42, 11, 43, 12, 44, 13, 45, 14,
                                              46, 15, 47));
  store_bits(to + LANES,
             (u32)__builtin_shufflevector(a, b, 16, 48, 17, 49, 18, 50, 19, 51, 20, 52, 21, 53, 22,
                                          54, 23, 55, 24, 56, 25, 57, 26, 58, 27, 59, 28, 60, 29, 61,
                                          30, 62, 31, 63));
}

// Values of a table of sixteen, by the lowest four bits of each index.
INLINE f32 looked_up(f32 table, u32 index) {
#if defined(__AVX512F__)
  return (f32)_mm512_permutexvar_ps((__m512i)index, (__m512)table);
#elif defined(__AVX2__)
  __m256 low, high;
  memcpy(&low, &table, 32);
  memcpy(&high, (const char *)&table + 32, 32);
  f32 found;
  for (int half = 0; half < 2; half++) {
    __m256i at;
    memcpy(&at, (const char *)&index + half * 32, 32);
    __m256 chosen = _mm256_castsi256_ps(_mm256_slli_epi32(at, 28));  // bit 3 as the sign
    __m256 values = _mm256_blendv_ps(_mm256_permutevar8x32_ps(low, at),
                                     _mm256_permutevar8x32_ps(high, at), chosen);
    memcpy((char *)&found + half * 32, &values, 32);
  }
  return found;
#else
  f32 found;
  for (int i = 0; i < LANES; i++) found[i] = table[index[i] & 15];
  return found;
#endif
}

INLINE f32 load(const float *from) { return *(const f32_anywhere *)from; }
INLINE f32 load(const bf16 *from) { return (f32)(load_words(from) << 16); }
INLINE void store(float *to, f32 v) { *(f32_anywhere *)to = v; }

// Round to the nearest, ties to even; a NaN stays one.
INLINE u16 narrowed(f32 v) {
#if defined(__AVX512BF16__) && defined(__AVX512F__)
  return (u16)_mm512_cvtneps_pbh((__m512)v);
#else
  u32 bits = (u32)v;
  u32 rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  u32 is_nan = (u32)(v != v);
  rounded = (rounded & ~is_nan) | (is_nan & 0x7fc0u);
#if defined(__AVX512F__)
  return (u16)_mm512_cvtepi32_epi16((__m512i)rounded);
#else
  return __builtin_convertvector(rounded, u16);
#endif
#endif
}
INLINE void store(bf16 *to, f32 v) {
  *(u16_anywhere *)to = narrowed(v);
}

INLINE float widen(float x) { return x; }
INLINE float widen(bf16 x) {
  uint32_t bits = (uint32_t)x.bits << 16;
  float v;
  memcpy(&v, &bits, 4);
  return v;
}
INLINE void narrow(float *to, float x) { *to = x; }
INLINE void narrow(bf16 *to, float x) {
  uint32_t bits;
  memcpy(&bits, &x, 4);
  if (x != x) {
    to->bits = 0x7fc0;
  } else {
    to->bits = (uint16_t)((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
  }
}

INLINE f32 largest(f32 a, f32 b) { return a > b ? a : b; }

INLINE bool any(i32 v) {
#if defined(__AVX512F__)
  return _mm512_test_epi32_mask((__m512i)v, (__m512i)v) != 0;
#else
  int32_t found = 0;
  UNROLL
  for (int i = 0; i < LANES; i++) found |= v[i];
  return found != 0;
#endif
}

INLINE float sum(f32 v) {
#if defined(__AVX512F__)
  return _mm512_reduce_add_ps((__m512)v);
#else
  float s = 0;
  UNROLL
  for (int i = 0; i < LANES; i++) s += v[i];
  return s;
#endif
}
INLINE float top(f32 v) {
#if defined(__AVX512F__)
  return _mm512_reduce_max_ps((__m512)v);
#else
  float m = v[0];
  for (int i = 1; i < LANES; i++) m = v[i] > m ? v[i] : m;
  return m;
#endif
}

// The first and the second of pairs of bf16.
INLINE f32 first_of(u32 pairs) { return (f32)(pairs << 16); }
INLINE f32 second_of(u32 pairs) { return (f32)(pairs & 0xffff0000u); }

// `sums + a0 * b0 + a1 * b1` for pairs of bf16.
INLINE f32 dot(f32 sums, u32 a, u32 b) {
#if defined(__AVX512BF16__) && defined(__AVX512F__)
  return (f32)_mm512_dpbf16_ps((__m512)sums, (__m512bh)a, (__m512bh)b);
#else
  return sums + first_of(a) * first_of(b) + second_of(a) * second_of(b);
#endif
}

// e^x to about 2 ulp; below -87 it is 0.
INLINE f32 exponential(f32 x) {
  const f32 magic = all(12582912.0f);
  f32 low = all(-87.0f);
  f32 clamped = largest(x, low);
  clamped = clamped < all(88.0f) ? clamped : all(88.0f);
  f32 turns = clamped * all(1.44269504f) + magic;
  i32 power = (i32)turns - (i32)magic;
  turns -= magic;
  f32 r = clamped - turns * all(0.693359375f);
  r = r - turns * all(-2.12194440e-4f);
  f32 p = all(1.9875691500e-4f);
  p = p * r + all(1.3981999507e-3f);
  p = p * r + all(8.3334519073e-3f);
  p = p * r + all(4.1665795894e-2f);
  p = p * r + all(1.6666665459e-1f);
  p = p * r + all(5.0000001201e-1f);
  p = p * r * r + r + all(1.0f);
  p = (f32)((i32)p + (power << 23));
  return (f32)((u32)p & (u32)(x >= low));
}

// 2^x for x of at most 127, 0 where that is tiny: to about 1 ulp, or to the precision of a bf16.
template <bool COARSE>
INLINE f32 power_of_two(f32 x) {
#if defined(__AVX512F__)
  f32 whole = (f32)_mm512_roundscale_ps((__m512)x, 0);
  f32 r = x - whole;
#else
  x = largest(x, all(-126.0f));
  f32 whole = x + all(12582912.0f);
  i32 power = (i32)whole - (i32)all(12582912.0f);
  f32 r = x - (whole - all(12582912.0f));
#endif
  f32 p;
  if (COARSE) {
    p = all(5.5171643634e-2f) * r + all(2.4261112024e-1f);
    p = p * r + all(6.9326099015e-1f);
    p = p * r + all(9.9992807378e-1f);
  } else {
    p = all(1.5345809410e-4f) * r + all(1.3399931198e-3f);
    p = p * r + all(9.6184889667e-3f);
    p = p * r + all(5.5503287770e-2f);
    p = p * r + all(2.4022646891e-1f);
    p = p * r + all(6.9314720574e-1f);
    p = p * r + all(1.0f);
  }
#if defined(__AVX512F__)
  return (f32)_mm512_scalef_ps((__m512)p, (__m512)whole);
#else
  p = (f32)((i32)p + (power << 23));
  return (f32)((u32)p & (u32)(x > all(-126.0f)));
#endif
}

INLINE f32 sigmoid(f32 x) { return all(1.0f) / (all(1.0f) + exponential(-x)); }

// Up to sixteen values at the end of a row.
template <class Out>
INLINE void put(Out *out, f32 value, int count) {
  if (count >= LANES) {
    store(out, value);
  } else {
    for (int i = 0; i < count; i++) narrow(out + i, value[i]);
  }
}

template <class T>
INLINE f32 take(const T *from, int count) {
  if (count >= LANES) return load(from);
  f32 v = all(0);
  for (int i = 0; i < count; i++) v[i] = widen(from[i]);
  return v;
}

// How a gate opens: gate * sigmoid(slope * gate + cubic * gate^3) * (up + shift).
struct Activation {
  float slope, cubic, shift, limit;
};

INLINE f32 opened(const Activation &how, f32 gate, f32 up) {
  f32 most = all(how.limit);
  gate = gate > most ? most : gate;  // a NaN stays one
  up = up > most ? most : up;
  up = up < -most ? -most : up;
  f32 opening = sigmoid(gate * (all(how.slope) + all(how.cubic) * gate * gate));
  return gate * opening * (up + all(how.shift));
}

INLINE f32 tanh_of(f32 x) { return all(1.0f) - all(2.0f) / (exponential(x + x) + all(1.0f)); }

// Rows become columns: sixteen by sixteen words of 32 bits.
#define FIRST_1 0, 16, 2, 18, 4, 20, 6, 22, 8, 24, 10, 26, 12, 28, 14, 30
#define SECOND_1 1, 17, 3, 19, 5, 21, 7, 23, 9, 25, 11, 27, 13, 29, 15, 31
#define FIRST_2 0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29
#define SECOND_2 2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31
#define FIRST_4 0, 1, 2, 3, 16, 17, 18, 19, 8, 9, 10, 11, 24, 25, 26, 27
#define SECOND_4 4, 5, 6, 7, 20, 21, 22, 23, 12, 13, 14, 15, 28, 29, 30, 31
#define FIRST_8 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23
#define SECOND_8 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31
#define STAGE(STEP)                                                              \
  UNROLL                                                                         \
  for (int i = 0; i < LANES; i++) {                                              \
    if (i & STEP) continue;                                                      \
    u32 low = __builtin_shufflevector(row[i], row[i + STEP], FIRST_##STEP);      \
    u32 high = __builtin_shufflevector(row[i], row[i + STEP], SECOND_##STEP);    \
    row[i] = low;                                                                \
    row[i + STEP] = high;                                                        \
  }

INLINE void transpose(u32 row[LANES]) {
  STAGE(1)
  STAGE(2)
  STAGE(4)
  STAGE(8)
}
#undef STAGE
