// A token of each row of logits, read through packed masks and never widened to them.
#pragma once
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "team.h"
#include "vector.h"

typedef double f64 __attribute__((vector_size(64)));
typedef int64_t i64 __attribute__((vector_size(64)));

constexpr float NEGLIGIBLE = 40.0f;

struct Sample {
  float *logits;
  int64_t stride;
  int32_t rows, tokens;
  const int32_t *mask;  // or null
  int64_t mask_stride;
  const float *temperature;
  const int32_t *top_k;
  const float *top_p, *min_p;
  const double *uniform;
  int64_t *out;
};

struct Candidate {
  float value;  // below the largest
  int32_t token;
  double weight;
};

// Most likely first; of equals the lower id.
INLINE bool before(const Candidate &a, const Candidate &b) {
  return a.value > b.value || (a.value == b.value && a.token < b.token);
}

// e^x for x in [-40, 0], to about 1 ulp of a double.
INLINE f64 exponential(f64 x) {
  const f64 magic = (f64){} + 6755399441055744.0;
  f64 turns = x * 1.4426950408889634 + magic;
  i64 power = (i64)turns - (i64)magic;
  turns -= magic;
  f64 r = x - turns * 0.693147180369123816490;
  r = r - turns * 1.90821492927058770002e-10;
  f64 p = (f64){} + 1.0 / 479001600.0;
  const double factors[] = {1.0 / 39916800, 1.0 / 3628800, 1.0 / 362880, 1.0 / 40320,
                            1.0 / 5040,     1.0 / 720,     1.0 / 120,    1.0 / 24,
                            1.0 / 6,        0.5,           1.0,          1.0};
  for (double factor : factors) p = p * r + factor;
  return (f64)((i64)p + (power << 52));
}

// Sixteen logits; what the mask hides is minus infinity, what lies past the end too.
INLINE f32 visible(const float *row, const int32_t *mask, int at, int tokens) {
  const i32 lane = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  const f32 never = all(-std::numeric_limits<float>::infinity());
  f32 values;
  if (at + LANES <= tokens) {
    values = load(row + at);
  } else {
    values = never;
    for (int i = at; i < tokens; i++) values[i - at] = row[i];
  }
  if (mask == nullptr) return values;
  i32 bits = (i32)all_bits((uint32_t)mask[at >> 5] >> (at & 31));
  return ((bits >> lane) & 1) != 0 ? values : never;
}

// Where the largest is, the first of equals; a NaN counts as the largest.
static int largest_of(const float *row, const int32_t *mask, int tokens, float *value) {
  f32 most = all(-std::numeric_limits<float>::infinity());
  i32 broken = {};
  for (int at = 0; at < tokens; at += LANES) {
    if (mask != nullptr && (at & 31) == 0 && mask[at >> 5] == 0) {
      at += LANES;
      continue;
    }
    f32 values = visible(row, mask, at, tokens);
    broken |= values != values;
    most = largest(most, values);
  }
  bool any_broken = any(broken);
  float best = top(most);
  *value = any_broken ? std::numeric_limits<float>::quiet_NaN() : best;
  for (int at = 0; at < tokens; at += LANES) {
    f32 values = visible(row, mask, at, tokens);
    i32 here = any_broken ? values != values : values == all(best);
    if (!any(here)) continue;
    for (int i = 0; i < LANES; i++)
      if (here[i]) return at + i;
  }
  return 0;
}

static void gather(std::vector<Candidate> &found, const float *row, const int32_t *mask, int tokens,
                   float best, float heat) {
  found.clear();
  for (int at = 0; at < tokens; at += LANES) {
    if (mask != nullptr && (at & 31) == 0 && mask[at >> 5] == 0) {
      at += LANES;
      continue;
    }
    f32 values = visible(row, mask, at, tokens) / all(heat);
    i32 near = values > all(best - NEGLIGIBLE);
    for (int i = 0; i < LANES; i++)
      if (near[i]) found.push_back(Candidate{values[i] - best, at + i, 0});
  }
  for (size_t at = 0; at < found.size(); at += 8) {
    f64 x = {};
    size_t count = std::min<size_t>(8, found.size() - at);
    for (size_t i = 0; i < count; i++) x[i] = (double)found[at + i].value;
    f64 weights = exponential(x);
    for (size_t i = 0; i < count; i++) found[at + i].weight = weights[i];
  }
}

// Candidates in order, sorted as far as they are asked for.
struct Ranked {
  std::vector<Candidate> &all;
  size_t sorted = 0;

  const Candidate &at(size_t index) {
    while (index >= sorted) {
      size_t past = std::min(all.size(), std::max<size_t>(64, sorted * 8));
      if (past < all.size())
        std::nth_element(all.begin() + sorted, all.begin() + past, all.end(), before);
      std::sort(all.begin() + sorted, all.begin() + past, before);
      sorted = past;
    }
    return all[index];
  }
};

static int64_t draw(const Sample &how, int row, std::vector<Candidate> &found) {
  float *logits = how.logits + row * how.stride;
  const int32_t *mask = how.mask ? how.mask + row * how.mask_stride : nullptr;
  float heat = how.temperature[row], best;
  int token = largest_of(logits, mask, how.tokens, &best);
  if (heat == 0 || how.top_k[row] == 1 || best != best || std::isinf(best)) return token;
  gather(found, logits, mask, how.tokens, best / heat, heat);
  if (found.empty()) return token;
  Ranked ranked{found};
  size_t kept = found.size();
  double total = 0;
  int top_k = how.top_k[row];
  bool all_kept = top_k <= 0 || (size_t)top_k >= kept;
  if (!all_kept) kept = (size_t)top_k;
  if (all_kept)
    for (const Candidate &one : found) total += one.weight;
  else
    for (size_t at = 0; at < kept; at++) total += ranked.at(at).weight;
  if (how.top_p[row] < 1) {
    double bound = (double)how.top_p[row] * total, reached = 0;
    size_t count = 0;
    while (count < kept && (count == 0 || reached < bound)) reached += ranked.at(count++).weight;
    kept = count;
    total = reached;
  }
  double least = how.min_p[row];
  if (least > 0) {
    size_t count = 0;
    double reached = 0;
    while (count < kept && (count == 0 || ranked.at(count).weight >= least))
      reached += ranked.at(count++).weight;
    kept = count;
    total = reached;
  }
  double wanted = how.uniform[row] * total, reached = 0;
  for (size_t at = 0; at + 1 < kept; at++) {
    reached += ranked.at(at).weight;
    if (reached > wanted) return ranked.at(at).token;
  }
  return ranked.at(kept - 1).token;
}

static void apply_sample(Worker &me, const Sample &how) {
  static thread_local std::vector<Candidate> found;
  me.share(how.rows, [&](int row) { how.out[row] = draw(how, row, found); });
}
