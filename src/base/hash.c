/* XXH64, after its published specification (xxHash fast digest algorithm, XXH64). Input of any
 * alignment; the result is the same on every little-endian machine. */
#include "base/base.h"
#include <string.h>

static const uint64_t p1 = 0x9E3779B185EBCA87u, p2 = 0xC2B2AE3D27D4EB4Fu,
                      p3 = 0x165667B19E3779F9u, p4 = 0x85EBCA77C2B2AE63u,
                      p5 = 0x27D4EB2F165667C5u;

HY_INLINE uint64_t rotl(uint64_t x, int n)
{
    return x << n | x >> (64 - n);
}

HY_INLINE uint64_t load64(const uint8_t *p)
{
    uint64_t v;
    memcpy(&v, p, 8);
    return v;
}

HY_INLINE uint64_t lane(uint64_t acc, uint64_t in)
{
    return rotl(acc + in * p2, 31) * p1;
}

HY_INLINE uint64_t merge(uint64_t acc, uint64_t v)
{
    return (acc ^ lane(0, v)) * p1 + p4;
}

uint64_t hy_hash64(const void *data, size_t n, uint64_t seed)
{
    const uint8_t *p = data;
    size_t left = n;
    uint64_t h = seed + p5;
    if (n >= 32) {
        uint64_t v[4] = {seed + p1 + p2, seed + p2, seed, seed - p1};
        for (; left >= 32; left -= 32, p += 32)
            for (int i = 0; i < 4; i++) v[i] = lane(v[i], load64(p + 8 * i));
        h = rotl(v[0], 1) + rotl(v[1], 7) + rotl(v[2], 12) + rotl(v[3], 18);
        for (int i = 0; i < 4; i++) h = merge(h, v[i]);
    }
    h += n;
    for (; left >= 8; left -= 8, p += 8) h = rotl(h ^ lane(0, load64(p)), 27) * p1 + p4;
    if (left >= 4) {
        uint32_t w;
        memcpy(&w, p, 4);
        h = rotl(h ^ w * p1, 23) * p2 + p3;
        left -= 4, p += 4;
    }
    for (; left; left--, p++) h = rotl(h ^ *p * p5, 11) * p1;
    h = (h ^ h >> 33) * p2;
    h = (h ^ h >> 29) * p3;
    return h ^ h >> 32;
}
