// FP8 as weights, keys and values have it: a sign, four bits of exponent, three of mantissa.
#pragma once
#include "vector.h"

struct e4m3 {
  uint8_t bits;
};

constexpr float MOST_E4M3 = 448.0f;

// Values of the codes in the top bytes of words. The exponent keeps its own bias, which a product
// with 2^120 makes that of fp32; it also makes the smallest codes, subnormal until then, whole.
INLINE f32 e4m3_values(u32 top) {
  u32 bits = (u32)((i32)top >> 4) & 0x87f00000u;
  return (f32)bits * all(0x1p120f);
}

// Codes of values of at most 448, each in a word: rounded to the nearest, ties to even.
INLINE u32 e4m3_codes(f32 value) {
  u32 sign = ((u32)value >> 24) & 0x80u, size = (u32)value & 0x7fffffffu;
  u32 normal = ((size + 0x7ffffu + ((size >> 20) & 1u)) >> 20) - (120u << 3);
  // Below the smallest normal one steps are of 2^-9: those of a sum with 2^14.
  u32 tiny = (u32)((f32)size + all(0x1p14f)) - (u32)all(0x1p14f);
  u32 is_tiny = (u32)((f32)size < all(0x1p-6f));
  return sign | (normal & ~is_tiny) | (tiny & is_tiny);
}

#if defined(__AVX512F__)
INLINE u32 load_bytes(const e4m3 *from) {
  return (u32)_mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)from));
}
#else
INLINE u32 load_bytes(const e4m3 *from) {
  return widened_from<u32, uint8_t>(from);
}
#endif

INLINE f32 load(const e4m3 *from) {
#if defined(__AVX512BW__) && defined(__AVX512VL__)
  // By fp16, where a subnormal costs no more than another: the exponent's bias is 15 in place of 7.
  __m256i words = _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)from));
  words = _mm256_and_si256(_mm256_slli_epi16(words, 7), _mm256_set1_epi16((short)0xbf80));
  return (f32)_mm512_cvtph_ps(words) * all(256.0f);
#else
  return e4m3_values(load_bytes(from) << 24);
#endif
}
#if defined(__AVX512BW__)
// Values in bf16 of the codes in the lower bytes of words of sixteen bits.
INLINE u32 e4m3_words(u32 words) {
  __m512i codes = (__m512i)words;
  __m512i size = _mm512_and_si512(_mm512_slli_epi16(codes, 4), _mm512_set1_epi16(0x07f0));
  size = _mm512_add_epi16(size, _mm512_set1_epi16(120 << 7));
  // Without an exponent, so many times 2^-9.
  const __m512i least = _mm512_broadcast_i32x4(
      _mm_setr_epi16(0, 0x3b00, 0x3b80, 0x3bc0, 0x3c00, 0x3c20, 0x3c40, 0x3c60));
  __mmask32 is_tiny = _mm512_testn_epi16_mask(codes, _mm512_set1_epi16(0x78));
  size = _mm512_mask_permutexvar_epi16(size, is_tiny, codes, least);
  __m512i sign = _mm512_and_si512(_mm512_slli_epi16(codes, 8), _mm512_set1_epi16((short)0x8000));
  return (u32)_mm512_or_si512(size, sign);
}

// Bytes of each word of four, at the places of pairs.
template <int FIRST>
INLINE u32 spread_bytes(u32 four) {
  const __m512i places = _mm512_set4_epi32(0x800d800c, 0x80098008, 0x80058004, 0x80018000);
  return (u32)_mm512_shuffle_epi8((__m512i)four, _mm512_add_epi8(places, _mm512_set1_epi16(FIRST)));
}
#endif

INLINE float widen(e4m3 x) {
  uint32_t bits = (x.bits & 0x80u) << 24 | (x.bits & 0x7fu) << 20;
  float v;
  memcpy(&v, &bits, 4);
  return v * 0x1p120f;
}
