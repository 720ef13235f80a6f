// A token of each row of logits, read through packed masks and never widened to them.
//
// Nothing is sorted but some tens of tokens. Each cut (top-k, top-p) and the draw itself is the first
// token, the most likely first and of equals the lower id, with which those so far pass a target of
// count or of mass. It is found by what falls into slices of the range of values: the slice in which
// the target is passed is cut into slices again, until few are left or all are equal.
#pragma once
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "team.h"
#include "vector.h"

constexpr int DOUBLES = 8;
typedef Lanes<double, DOUBLES> f64;
typedef Lanes<int64_t, DOUBLES> i64;

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

constexpr int SLICES = 1024;
constexpr int FEW = 48;

// Tokens that may come, in the order of their ids.
struct Crowd {
  std::vector<float> value;  // logit over temperature
  std::vector<int32_t> token;
  std::vector<double> weight;
  int count = 0;

  void room_for(size_t tokens) {
    if (value.size() >= tokens + LANES) return;
    value.resize(tokens + LANES);
    token.resize(tokens + LANES);
    weight.resize(tokens + LANES);
  }
  void put(int at, const Crowd &from, int other) {
    value[at] = from.value[other];
    token[at] = from.token[other];
    weight[at] = from.weight[other];
  }
};

struct Scratch {
  Crowd all, slice;
  std::vector<int> order;
};

// e^x for x in [-40, 0], to about 1 ulp of a double.
INLINE f64 exponential(f64 x) {
  const f64 magic = filled<f64>(6755399441055744.0);
  f64 turns = x * 1.4426950408889634 + magic;
  i64 power = (i64)turns - (i64)magic;
  turns -= magic;
  f64 r = x - turns * 0.693147180369123816490;
  r = r - turns * 1.90821492927058770002e-10;
  f64 p = filled<f64>(1.0 / 479001600.0);
  const double factors[] = {1.0 / 39916800, 1.0 / 3628800, 1.0 / 362880, 1.0 / 40320,
                            1.0 / 5040,     1.0 / 720,     1.0 / 120,    1.0 / 24,
                            1.0 / 6,        0.5,           1.0,          1.0};
  for (double factor : factors) p = p * r + factor;
  return (f64)((i64)p + (power << 52));
}

// Sixteen logits; what the mask hides is minus infinity, what lies past the end too.
INLINE f32 visible(const float *row, const int32_t *mask, int at, int tokens) {
  const float infinity = std::numeric_limits<float>::infinity();
  f32 values;
  if (at + LANES <= tokens) {
    values = load(row + at);
  } else {
    float some[LANES];
    for (int i = 0; i < LANES; i++) some[i] = at + i < tokens ? row[at + i] : -infinity;
    values = load(some);
  }
  if (mask == nullptr) return values;
  i32 bits = (i32)all_bits((uint32_t)mask[at >> 5] >> (at & 31));
  return chosen(((bits >> counted()) & 1) != 0, values, all(-infinity));
}

// Where the largest is, the first of equals; -1 if there is a NaN.
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
  if (any(broken)) return -1;
  float best = top(most);
  *value = best;
  for (int at = 0; at < tokens; at += LANES) {
    f32 values = visible(row, mask, at, tokens);
    i32 here = values == all(best);
    if (!any(here)) continue;
    int32_t found[LANES];
    write(found, here);
    for (int i = 0; i < LANES; i++)
      if (found[i]) return at + i;
  }
  return 0;
}

// All that are near enough to the largest to matter; returns their mass.
static double gather(Crowd &crowd, const float *row, const int32_t *mask, int tokens, float best,
                     float heat) {
  crowd.room_for(tokens);
  int count = 0;
  for (int at = 0; at < tokens; at += LANES) {
    if (mask != nullptr && (at & 31) == 0 && mask[at >> 5] == 0) {
      at += LANES;
      continue;
    }
    f32 values = visible(row, mask, at, tokens) / all(heat);
    i32 near = values - all(best) > all(-NEGLIGIBLE);
    if (!any(near)) continue;
    if (!any(~near)) {
      store(&crowd.value[count], values);
      for (int i = 0; i < LANES; i++) crowd.token[count + i] = at + i;
      count += LANES;
      continue;
    }
    float some[LANES];
    int32_t counts[LANES];
    write(some, values);
    write(counts, near);
    for (int i = 0; i < LANES; i++) {  // lanes that do not count are overwritten
      crowd.value[count] = some[i];
      crowd.token[count] = at + i;
      count -= counts[i];
    }
  }
  crowd.count = count;
  f64 masses = {};
  for (int at = 0; at < count; at += DOUBLES) {
    double x[DOUBLES];
    UNROLL
    for (int i = 0; i < DOUBLES; i++) x[i] = (double)(crowd.value[at + i] - best);
    write(&crowd.weight[at], exponential(read<f64>(x)));
    for (int i = 0; i < DOUBLES; i++) x[i] = at + i < count ? crowd.weight[at + i] : 0;
    masses += read<f64>(x);
  }
  double each[DOUBLES], mass = 0;
  write(each, masses);
  for (double some : each) mass += some;
  return mass;
}

// Keep only the tokens at places that `stays` accepts; returns their mass.
template <class Stays>
static double keep(Crowd &crowd, Stays stays) {
  double mass = 0;
  int count = 0;
  for (int at = 0; at < crowd.count; at++) {
    bool here = stays(at);
    mass += here ? crowd.weight[at] : 0;
    crowd.put(count, crowd, at);
    count += here;
  }
  crowd.count = count;
  return mass;
}

static void range_of(const Crowd &crowd, float *least, float *most) {
  float low = crowd.value[0], high = low;
  int at = 0;
  if (crowd.count >= LANES) {
    f32 lows = load(&crowd.value[0]), highs = lows;
    for (; at + LANES <= crowd.count; at += LANES) {
      f32 values = load(&crowd.value[at]);
      highs = largest(highs, values);
      lows = smallest(lows, values);
    }
    high = top(highs);
    low = -top(-lows);
  }
  for (; at < crowd.count; at++) {
    low = std::min(low, crowd.value[at]);
    high = std::max(high, crowd.value[at]);
  }
  *least = low;
  *most = high;
}

// Slices of equal width, the highest values in the first. Rounding keeps the order of values.
struct Slices {
  float most, scale;
  int of(float value) const { return (int)((most - value) * scale); }
};

// The slice in which `reached`, with what lies before it, passes the target; else the last of all.
template <bool COUNTED>
static int passing(const Crowd &crowd, Slices slices, double target, double *reached) {
  double masses[SLICES + LANES] = {};
  for (int at = 0; at < crowd.count; at++)
    masses[slices.of(crowd.value[at])] += COUNTED ? 1 : crowd.weight[at];
  int last = 0;
  double before = *reached;
  for (int slice = 0; slice < SLICES; slice++) {
    if (masses[slice] == 0) continue;
    last = slice;
    *reached = before;
    before += masses[slice];
    if (before > target) break;
  }
  return last;
}

struct Cut {
  float value;
  int32_t token;
};

// The first, in order, with which those so far pass the target; the last of all if none does.
template <bool COUNTED>
static Cut reach(Scratch &scratch, double target) {
  double reached = 0;
  Crowd *here = &scratch.all;
  float least, most;
  bool equal;
  while (true) {
    range_of(*here, &least, &most);
    equal = least == most;
    float scale = (float)(SLICES - 1) / (most - least);
    if (equal || here->count <= FEW || std::isinf(scale)) break;
    Slices slices{most, scale};
    int slice = passing<COUNTED>(*here, slices, target, &reached);
    scratch.slice.room_for(here->count);
    int count = 0;
    for (int at = 0; at < here->count; at++) {
      if (slices.of(here->value[at]) != slice) continue;
      scratch.slice.put(count++, *here, at);
    }
    scratch.slice.count = count;
    here = &scratch.slice;
  }
  std::vector<int> &order = scratch.order;
  order.resize(here->count);
  for (int at = 0; at < here->count; at++) order[at] = at;
  const float *value = here->value.data();
  if (!equal)
    std::sort(order.begin(), order.end(), [value](int a, int b) {
      return value[a] > value[b] || (value[a] == value[b] && a < b);
    });
  int last = order.back();
  for (int at : order) {
    reached += COUNTED ? 1 : here->weight[at];
    if (reached > target) {
      last = at;
      break;
    }
  }
  return Cut{here->value[last], here->token[last]};
}

static double keep_up_to(Crowd &crowd, Cut cut) {
  return keep(crowd, [&](int at) {
    float value = crowd.value[at];
    return (value > cut.value) | ((value == cut.value) & (crowd.token[at] <= cut.token));
  });
}

static int64_t draw(const Sample &how, int row, Scratch &scratch) {
  float *logits = how.logits + row * how.stride;
  const int32_t *mask = how.mask ? how.mask + row * how.mask_stride : nullptr;
  float heat = how.temperature[row], best;
  int token = largest_of(logits, mask, how.tokens, &best);
  if (token < 0 || heat == 0 || how.top_k[row] == 1 || std::isinf(best)) return token;
  Crowd &crowd = scratch.all;
  double mass = gather(crowd, logits, mask, how.tokens, best / heat, heat);
  if (crowd.count == 0) return token;
  int top_k = how.top_k[row];
  if (top_k > 0 && top_k < crowd.count)
    mass = keep_up_to(crowd, reach<true>(scratch, (double)top_k - 0.5));
  if (how.top_p[row] < 1) {  // up to the first that reaches the bound
    double bound = std::nextafter((double)how.top_p[row] * mass, -1.0);
    mass = keep_up_to(crowd, reach<false>(scratch, bound));
  }
  double least = std::min(how.min_p[row], 1.0f);  // the largest weighs 1
  if (least > 0) mass = keep(crowd, [&](int at) { return crowd.weight[at] >= least; });
  return reach<false>(scratch, how.uniform[row] * mass).token;
}

static void apply_sample(Worker &me, const Sample &how) {
  static thread_local Scratch scratch;
  me.share(how.rows, [&](int row) { how.out[row] = draw(how, row, scratch); });
}
