/* Typed reading of metadata: values are raw little-endian bytes, unaligned. */
#include "file/file_impl.h"
#include <math.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "values are copied as they lie in files");

static const struct {
    uint32_t bytes;
    bool is_int;
    const char *name;
} type_info[] = {
    [HY_M_U8] = {1, true, "u8"},       [HY_M_I8] = {1, true, "i8"},
    [HY_M_U16] = {2, true, "u16"},     [HY_M_I16] = {2, true, "i16"},
    [HY_M_U32] = {4, true, "u32"},     [HY_M_I32] = {4, true, "i32"},
    [HY_M_F32] = {4, false, "f32"},    [HY_M_BOOL] = {1, false, "bool"},
    [HY_M_STR] = {0, false, "string"}, [HY_M_ARRAY] = {0, false, "array"},
    [HY_M_U64] = {8, true, "u64"},     [HY_M_I64] = {8, true, "i64"},
    [HY_M_F64] = {8, false, "f64"},
};

uint32_t hy_meta_type_bytes(hy_meta_type t) { return type_info[t].bytes; }

bool hy_meta_is_int(hy_meta_type t) { return type_info[t].is_int; }

const char *hy_meta_type_name(hy_meta_type t)
{
    return (unsigned)t < HY_COUNT(type_info) ? type_info[t].name : "?";
}

/* An integer as sign and bits: *neg says that *bits is a negative two's complement number. */
static bool item_bits(const hy_meta *m, uint64_t i, uint64_t *bits, bool *neg)
{
    hy_meta_type t = m->type == HY_M_ARRAY ? m->item : m->type;
    if (i >= m->n || !hy_meta_is_int(t)) return false;
    const uint8_t *p = (const uint8_t *)m->data + i * hy_meta_type_bytes(t);
    uint64_t u = 0;
    memcpy(&u, p, hy_meta_type_bytes(t));
    switch (t) {
    case HY_M_I8:
        u = (uint64_t)(int64_t)(int8_t)u;
        break;
    case HY_M_I16:
        u = (uint64_t)(int64_t)(int16_t)u;
        break;
    case HY_M_I32:
        u = (uint64_t)(int64_t)(int32_t)u;
        break;
    case HY_M_I64:
        break;
    default:
        *neg = false;
        *bits = u;
        return true;
    }
    *neg = (int64_t)u < 0;
    *bits = u;
    return true;
}

bool hy_meta_item_u64(const hy_meta *m, uint64_t i, uint64_t *out)
{
    uint64_t bits;
    bool neg;
    if (!item_bits(m, i, &bits, &neg) || neg) return false;
    *out = bits;
    return true;
}

bool hy_meta_item_i64(const hy_meta *m, uint64_t i, int64_t *out)
{
    uint64_t bits;
    bool neg;
    if (!item_bits(m, i, &bits, &neg) || (!neg && bits > INT64_MAX)) return false;
    *out = (int64_t)bits;
    return true;
}

bool hy_meta_item_f64(const hy_meta *m, uint64_t i, double *out)
{
    hy_meta_type t = m->type == HY_M_ARRAY ? m->item : m->type;
    uint64_t bits;
    bool neg;
    if (i < m->n && t == HY_M_F32) {
        float v;
        memcpy(&v, (const uint8_t *)m->data + i * 4, 4);
        *out = v;
        return true;
    }
    if (i < m->n && t == HY_M_F64) {
        memcpy(out, (const uint8_t *)m->data + i * 8, 8);
        return true;
    }
    if (!item_bits(m, i, &bits, &neg)) return false;
    *out = neg ? (double)(int64_t)bits : (double)bits;
    return true;
}

/* ---- by key ---------------------------------------------------------------------------------- */

static hy_status absent(const hy_file *f, const char *key, bool needed, hy_err *err)
{
    if (!needed) return HY_OK;
    return hy_fail(err, HY_E_FORMAT, "%s: key %s is missing", f->path, key);
}

static hy_status wrong_type(const hy_file *f, const hy_meta *m, const char *want, hy_err *err)
{
    return hy_fail(err, HY_E_FORMAT, "%s: key %s: expected %s, found %s%s", f->path, m->key, want,
                   m->type == HY_M_ARRAY ? "an array of " : "",
                   hy_meta_type_name(m->type == HY_M_ARRAY ? m->item : m->type));
}

hy_status hy_meta_u64(const hy_file *f, const char *key, bool needed, uint64_t min, uint64_t max,
                      uint64_t *out, hy_err *err)
{
    const hy_meta *m = hy_file_meta(f, key);
    if (!m) return absent(f, key, needed, err);
    uint64_t bits;
    bool neg;
    if (m->type == HY_M_ARRAY || !item_bits(m, 0, &bits, &neg))
        return wrong_type(f, m, "an integer", err);
    if (neg)
        return hy_fail(err, HY_E_FORMAT,
                       "%s: key %s: %" PRId64 " is not from %" PRIu64 " to %" PRIu64, f->path, key,
                       (int64_t)bits, min, max);
    if (bits < min || bits > max)
        return hy_fail(err, HY_E_FORMAT,
                       "%s: key %s: %" PRIu64 " is not from %" PRIu64 " to %" PRIu64, f->path, key,
                       bits, min, max);
    *out = bits;
    return HY_OK;
}

hy_status hy_meta_f64(const hy_file *f, const char *key, bool needed, double *out, hy_err *err)
{
    const hy_meta *m = hy_file_meta(f, key);
    if (!m) return absent(f, key, needed, err);
    double v;
    if (m->type == HY_M_ARRAY || !hy_meta_item_f64(m, 0, &v))
        return wrong_type(f, m, "a number", err);
    if (!isfinite(v))
        return hy_fail(err, HY_E_FORMAT, "%s: key %s: %f is not finite", f->path, key, v);
    *out = v;
    return HY_OK;
}

hy_status hy_meta_bool(const hy_file *f, const char *key, bool needed, bool *out, hy_err *err)
{
    const hy_meta *m = hy_file_meta(f, key);
    if (!m) return absent(f, key, needed, err);
    if (m->type != HY_M_BOOL) return wrong_type(f, m, "a boolean", err);
    *out = *(const uint8_t *)m->data != 0;
    return HY_OK;
}

hy_status hy_meta_string(const hy_file *f, const char *key, bool needed, hy_str *out, hy_err *err)
{
    const hy_meta *m = hy_file_meta(f, key);
    if (!m) return absent(f, key, needed, err);
    if (m->type != HY_M_STR) return wrong_type(f, m, "a string", err);
    *out = m->strs[0];
    return HY_OK;
}
