// Operations row by row: norms, the gate, rotation with the store of keys and values.
#pragma once
#include <cmath>
#include <vector>

#include "kv_codes.h"
#include "vector.h"

template <class In>
static float mean_of(const In *x, int width) {
  f32 values = all(0);
  int at = 0;
  for (; at + LANES <= width; at += LANES) values += load(x + at);
  float total = sum(values);
  for (; at < width; at++) total += widen(x[at]);
  return total / (float)width;
}

// What a norm of rows is, beside its weight.
struct Norm {
  float epsilon;
  bool centered;  // whether the mean is subtracted first
};

// out = x / rms(x) * weight
template <class In, class Out, class W>
static void norm_row(const In *x, const W *weight, Norm how, int width, Out *out) {
  float mean = how.centered ? mean_of(x, width) : 0.0f;
  f32 squares = all(0), more = all(0);
  int at = 0;
  for (; at + 2 * LANES <= width; at += 2 * LANES) {
    f32 a = load(x + at) - all(mean), b = load(x + at + LANES) - all(mean);
    squares += a * a;
    more += b * b;
  }
  float total = sum(squares + more);
  for (; at < width; at++) total += (widen(x[at]) - mean) * (widen(x[at]) - mean);
  float scale = 1.0f / std::sqrt(total / (float)width + how.epsilon);
  for (at = 0; at + LANES <= width; at += LANES)
    store(out + at, (load(x + at) - all(mean)) * all(scale) * load(weight + at));
  for (; at < width; at++) narrow(out + at, (widen(x[at]) - mean) * scale * widen(weight[at]));
}

template <class T>
static void add_row(const T *delta, T *residual, int width) {
  int at = 0;
  for (; at + LANES <= width; at += LANES)
    store(residual + at, load(residual + at) + load(delta + at));
  for (; at < width; at++) narrow(residual + at, widen(residual[at]) + widen(delta[at]));
}

template <class T>
static void gate_row(const Activation &how, const T *gate, const T *up, int width, T *out) {
  for (int at = 0; at < width; at += LANES) {
    int count = width - at;
    put(out + at, opened(how, take(gate + at, count), take(up + at, count)), count);
  }
}

// The halves of a head are turned against each other; `angles` holds cosines, then sines.
template <class T, class W, class Out>
static void rotate_head(const T *head, const W *norm, Norm how, const float *angles, int dim,
                        Out *out) {
  float scale = 1.0f, mean = 0.0f;
  if (norm != nullptr) {
    if (how.centered) mean = mean_of(head, dim);
    float total = 0;
    int at = 0;
    f32 squares = all(0);
    for (; at + LANES <= dim; at += LANES) {
      f32 v = load(head + at) - all(mean);
      squares += v * v;
    }
    total = sum(squares);
    for (; at < dim; at++) total += (widen(head[at]) - mean) * (widen(head[at]) - mean);
    scale = 1.0f / std::sqrt(total / (float)dim + how.epsilon);
  }
  int half = dim / 2;
  const float *cosines = angles, *sines = angles + half;
  int at = 0;
  for (; at + LANES <= half; at += LANES) {
    f32 a = load(head + at), b = load(head + half + at);
    if (norm != nullptr) {
      a = (a - all(mean)) * all(scale) * load(norm + at);
      b = (b - all(mean)) * all(scale) * load(norm + half + at);
    }
    f32 c = load(cosines + at), s = load(sines + at);
    store(out + at, a * c - b * s);
    store(out + half + at, b * c + a * s);
  }
  for (; at < half; at++) {
    float a = widen(head[at]), b = widen(head[half + at]);
    if (norm != nullptr) {
      a = (a - mean) * scale * widen(norm[at]);
      b = (b - mean) * scale * widen(norm[half + at]);
    }
    narrow(out + at, a * cosines[at] - b * sines[at]);
    narrow(out + half + at, b * cosines[at] + a * sines[at]);
  }
}

// Where one layer's keys and values lie; strides count values. Codes have scales, those of one head's
// tokens in a page next to each other.
struct Pages {
  void *memory;
  int64_t page_stride, value_offset, token_stride, head_stride;
  int32_t page_tokens, kv_heads, head_dim;
  KvCoding coding;
  bf16 *scales;  // or null
  int64_t scale_page_stride, scale_value_offset, scale_head_stride;
};

struct Rope {
  const void *qkv;
  int64_t qkv_stride, qkv_head_stride;
  const int64_t *positions;
  const float *angles;
  int64_t angles_stride;
  const int64_t *slots;
  const void *query_norm, *key_norm;  // or null
  int64_t norm_stride;                // 0: one weight for all heads
  float epsilon;
  int32_t centered, heads;
  void *query;
  int64_t query_stride, query_head_stride;
};

// Keys of one token rotated, and its values, as codes of type `C`.
template <class C, class T, class W, class NormOf>
static void store_codes(const Rope &how, const Pages &pages, const T *qkv, const float *angles,
                        NormOf norm_of, int64_t page, int64_t offset) {
  static thread_local std::vector<float> wide;
  int dim = pages.head_dim;
  if (wide.size() < (size_t)dim) wide.resize(dim);
  C *codes = (C *)pages.memory + page * pages.page_stride + offset * pages.token_stride;
  bf16 *scales = pages.scales + page * pages.scale_page_stride + offset;
  for (int head = 0; head < pages.kv_heads; head++) {
    const T *key = qkv + (how.heads + head) * how.qkv_head_stride;
    const T *value = key + pages.kv_heads * how.qkv_head_stride;
    C *to = codes + head * pages.head_stride;
    bf16 *scale = scales + head * pages.scale_head_stride;
    rotate_head(key, norm_of(how.key_norm, head), Norm{how.epsilon, how.centered != 0}, angles, dim,
                wide.data());
    encode_head(wide.data(), dim, to, scale);
    for (int d = 0; d < dim; d += LANES) put(wide.data() + d, take(value + d, dim - d), dim - d);
    encode_head(wide.data(), dim, to + pages.value_offset, scale + pages.scale_value_offset);
  }
}

template <class T, class W>
static void rope_row(const Rope &how, const Pages &pages, int row) {
  const T *qkv = (const T *)how.qkv + row * how.qkv_stride;
  const float *angles = how.angles + how.positions[row] * how.angles_stride;
  int dim = pages.head_dim;
  Norm norm{how.epsilon, how.centered != 0};
  auto norm_of = [&](const void *weight, int head) {
    return weight == nullptr ? nullptr : (const W *)weight + head * how.norm_stride;
  };
  T *query = (T *)how.query + row * how.query_stride;
  for (int head = 0; head < how.heads; head++)
    rotate_head(qkv + head * how.qkv_head_stride, norm_of(how.query_norm, head), norm, angles, dim,
                query + head * how.query_head_stride);
  int64_t slot = how.slots[row];
  if (slot < 0) return;
  int64_t page = slot / pages.page_tokens, offset = slot % pages.page_tokens;
  if (pages.coding == KvCoding::STEPS) {
    store_codes<int8_t, T, W>(how, pages, qkv, angles, norm_of, page, offset);
    return;
  }
  if (pages.coding == KvCoding::E4M3) {
    store_codes<e4m3, T, W>(how, pages, qkv, angles, norm_of, page, offset);
    return;
  }
  T *keys = (T *)pages.memory + page * pages.page_stride + offset * pages.token_stride;
  for (int head = 0; head < pages.kv_heads; head++) {
    T *key = keys + head * pages.head_stride;
    rotate_head(qkv + (how.heads + head) * how.qkv_head_stride, norm_of(how.key_norm, head), norm,
                angles, dim, key);
    memcpy(key + pages.value_offset,
           qkv + (how.heads + pages.kv_heads + head) * how.qkv_head_stride, dim * sizeof(T));
  }
}
