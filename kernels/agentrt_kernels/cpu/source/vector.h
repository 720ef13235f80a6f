// Sixteen lanes at a time. bf16 is stored as its upper sixteen bits and computed in fp32.
#pragma once
#include "lanes.h"

constexpr int LANES = 16;

typedef Lanes<float, LANES> f32;
typedef Lanes<int32_t, LANES> i32;
typedef Lanes<uint32_t, LANES> u32;
typedef Lanes<uint16_t, LANES> u16;

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
  return filled<f32>(value);
#endif
}

INLINE u32 all_bits(uint32_t value) {
#if defined(__AVX512F__)
  return (u32)_mm512_set1_epi32((int)value);
#else
  return filled<u32>(value);
#endif
}

INLINE u32 load_bits(const void *from) { return read<u32>(from); }
INLINE void store_bits(void *to, u32 v) { write(to, v); }

// 0, 1, 2 and so on.
INLINE i32 counted() {
  alignas(64) static const int32_t numbers[LANES] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  return read<i32>(numbers);
}

// Sixteen words of sixteen bits, widened with zeros.
INLINE u32 load_words(const void *from) {
#if defined(__AVX512F__)
  return (u32)_mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)from));
#else
  return widened_from<u32, uint16_t>(from);
#endif
}

// Values of a table of sixteen, by the lowest four bits of each index.
INLINE f32 looked_up(f32 table, u32 index) {
#if defined(__AVX512F__)
  return (f32)_mm512_permutexvar_ps((__m512i)index, (__m512)table);
#elif defined(__AVX2__)
  auto half = [&](auto at) {
    __m256i places = (__m256i)at;
    __m256 chosen = _mm256_castsi256_ps(_mm256_slli_epi32(places, 28));  // bit 3 as the sign
    return (decltype(f32::low))_mm256_blendv_ps(
        _mm256_permutevar8x32_ps((__m256)table.low, places),
        _mm256_permutevar8x32_ps((__m256)table.high, places), chosen);
  };
  return {half(index.low), half(index.high)};
#else
  float values[LANES], found[LANES];
  uint32_t at[LANES];
  write(values, table);
  write(at, index);
  for (int i = 0; i < LANES; i++) found[i] = values[at[i] & 15];
  return read<f32>(found);
#endif
}

INLINE f32 load(const float *from) { return read<f32>(from); }
INLINE f32 load(const bf16 *from) { return (f32)(load_words(from) << 16); }
INLINE void store(float *to, f32 v) { write(to, v); }

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
  return converted_to<u16>(rounded);
#endif
#endif
}
INLINE void store(bf16 *to, f32 v) {
  write(to, narrowed(v));
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

INLINE f32 largest(f32 a, f32 b) { return chosen(a > b, a, b); }
INLINE f32 smallest(f32 a, f32 b) { return chosen(a < b, a, b); }

INLINE bool any(i32 v) {
#if defined(__AVX512F__)
  return _mm512_test_epi32_mask((__m512i)v, (__m512i)v) != 0;
#else
  return joined(v, [](auto a, auto b) { return a | b; }) != 0;
#endif
}

INLINE float sum(f32 v) {
#if defined(__AVX512F__)
  return _mm512_reduce_add_ps((__m512)v);
#else
  return joined(v, [](auto a, auto b) { return a + b; });
#endif
}
INLINE float top(f32 v) {
#if defined(__AVX512F__)
  return _mm512_reduce_max_ps((__m512)v);
#else
  return joined(v, [](auto a, auto b) { return chosen(a > b, a, b); });
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
  clamped = smallest(clamped, all(88.0f));
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
    float values[LANES];
    write(values, value);
    for (int i = 0; i < count; i++) narrow(out + i, values[i]);
  }
}

template <class T>
INLINE f32 take(const T *from, int count) {
  if (count >= LANES) return load(from);
  float values[LANES] = {};
  for (int i = 0; i < count; i++) values[i] = widen(from[i]);
  return read<f32>(values);
}

// How a gate opens: gate * sigmoid(slope * gate + cubic * gate^3) * (up + shift).
struct Activation {
  float slope, cubic, shift, limit;
};

INLINE f32 opened(const Activation &how, f32 gate, f32 up) {
  f32 most = all(how.limit);
  gate = chosen(gate > most, most, gate);  // a NaN stays one
  up = chosen(up > most, most, up);
  up = chosen(up < -most, -most, up);
  f32 opening = sigmoid(gate * (all(how.slope) + all(how.cubic) * gate * gate));
  return gate * opening * (up + all(how.shift));
}

INLINE f32 tanh_of(f32 x) { return all(1.0f) - all(2.0f) / (exponential(x + x) + all(1.0f)); }
