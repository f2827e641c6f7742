/* tokenizer.model: SentencePiece's ModelProto, read field by field (protobuf wire format). */
#include "tok/tok_impl.h"
#include <inttypes.h>
#include <math.h>
#include <string.h>

typedef struct reader {
    const uint8_t *p, *end;
} reader;

typedef struct field {
    uint32_t number, wire;
    uint64_t value; /* varint; fixed32 as bits */
    reader bytes;
} field;

static bool varint(reader *r, uint64_t *out)
{
    *out = 0;
    for (int shift = 0; shift < 70 && r->p < r->end; shift += 7) {
        uint8_t b = *r->p++;
        if (shift < 64) *out |= (uint64_t)(b & 0x7F) << shift;
        if (b < 0x80) return true;
    }
    return false;
}

static bool fixed(reader *r, int n, uint64_t *out)
{
    if (r->end - r->p < n) return false;
    *out = 0;
    for (int i = 0; i < n; i++) *out |= (uint64_t)r->p[i] << 8 * i;
    r->p += n;
    return true;
}

static bool next_field(reader *r, field *f)
{
    uint64_t key;
    if (!varint(r, &key)) return false;
    *f = (field){.number = (uint32_t)(key >> 3), .wire = (uint32_t)(key & 7)};
    switch (f->wire) {
    case 0:
        return varint(r, &f->value);
    case 1:
        return fixed(r, 8, &f->value);
    case 5:
        return fixed(r, 4, &f->value);
    case 2:
        if (!varint(r, &f->value) || f->value > (uint64_t)(r->end - r->p)) return false;
        f->bytes = (reader){r->p, r->p + f->value};
        r->p += f->value;
        return true;
    default:
        return false;
    }
}

typedef struct model {
    tok_sp sp;
    uint64_t type; /* 1 Unigram, 2 BPE */
    int64_t unk, bos, eos, pad;
    bool byte_fallback;
} model;

static hy_status bad(const char *what, hy_err *err)
{
    return hy_fail(err, HY_E_FORMAT, "tokenizer.model: %s does not follow the format", what);
}

static hy_status read_piece(hy_tok *t, reader r, hy_err *err)
{
    static const uint8_t flags[] = {
        0, 0, HY_TOK_UNKNOWN, HY_TOK_CONTROL, HY_TOK_USER, HY_TOK_UNUSED, HY_TOK_BYTE};
    reader text = {(const uint8_t *)"", (const uint8_t *)""};
    float score = 0;
    uint64_t type = 1;
    field f;
    while (r.p < r.end) {
        if (!next_field(&r, &f)) return bad("a piece", err);
        if (f.number == 1 && f.wire == 2) text = f.bytes;
        if (f.number == 2 && f.wire == 5) {
            uint32_t bits = (uint32_t)f.value;
            memcpy(&score, &bits, sizeof score);
        }
        if (f.number == 3 && f.wire == 0) type = f.value;
    }
    if (isnan(score))
        return hy_fail(err, HY_E_FORMAT, "tokenizer.model: score of piece %u is NaN",
                       (unsigned)t->vocab.n);
    return tok_vocab_put(t, t->vocab.n, (const char *)text.p, (size_t)(text.end - text.p), score,
                         type < HY_COUNT(flags) ? flags[type] : 0, err);
}

static hy_status read_trainer(model *m, reader r, hy_err *err)
{
    field f;
    while (r.p < r.end) {
        if (!next_field(&r, &f)) return bad("trainer_spec", err);
        if (f.wire != 0) continue;
        int64_t id = (int32_t)f.value;
        switch (f.number) {
        case 3:
            m->type = f.value;
            break;
        case 35:
            m->byte_fallback = f.value != 0;
            break;
        case 40:
            m->unk = id;
            break;
        case 41:
            m->bos = id;
            break;
        case 42:
            m->eos = id;
            break;
        case 43:
            m->pad = id;
            break;
        default:
            break;
        }
    }
    return HY_OK;
}

static hy_status read_normalizer(model *m, reader r, hy_err *err)
{
    field f;
    while (r.p < r.end) {
        if (!next_field(&r, &f)) return bad("normalizer_spec", err);
        if (f.number == 2 && f.wire == 2) {
            m->sp.charsmap = f.bytes.p;
            m->sp.n_charsmap = (size_t)f.value;
        }
        if (f.number == 3 && f.wire == 0) m->sp.space_prefix = f.value != 0;
        if (f.number == 4 && f.wire == 0) m->sp.squeeze = f.value != 0;
        if (f.number == 5 && f.wire == 0) m->sp.escape = f.value != 0;
    }
    return HY_OK;
}

static int32_t id_of(const hy_tok *t, int64_t id)
{
    return id >= 0 && id < t->vocab.n ? (int32_t)id : -1;
}

static hy_status add_controls(hy_tok *t, hy_err *err)
{
    for (uint32_t i = 0; i < t->vocab.n; i++) {
        if (!(t->vocab.flags[i] & (HY_TOK_CONTROL | HY_TOK_UNKNOWN)) || !t->vocab.str[i].n)
            continue;
        tok_added a = {.text = t->vocab.str[i], .id = (int32_t)i, .special = true};
        HY_TRY(tok_added_put(t, &a, err));
    }
    return HY_OK;
}

hy_status tok_from_model_proto(hy_tok *t, const uint8_t *data, size_t n, const json_t *config,
                               hy_err *err)
{
    model m = {.sp = {.space_prefix = true, .squeeze = true, .escape = true},
               .type = 1,
               .unk = 0,
               .bos = 1,
               .eos = 2,
               .pad = -1};
    reader r = {data, data + n};
    field f;
    while (r.p < r.end) {
        if (!next_field(&r, &f)) return bad("the file", err);
        if (f.wire != 2) continue;
        if (f.number == 1) HY_TRY(read_piece(t, f.bytes, err));
        if (f.number == 2) HY_TRY(read_trainer(&m, f.bytes, err));
        if (f.number == 3) HY_TRY(read_normalizer(&m, f.bytes, err));
    }
    if (!t->vocab.n) return hy_fail(err, HY_E_FORMAT, "tokenizer.model has no pieces");
    if (m.type != 1 && m.type != 2)
        return hy_fail(err, HY_E_UNSUPPORTED,
                       "tokenizer.model: model type %" PRIu64 " is not supported", m.type);
    t->kind = m.type == 2 ? "spm" : "unigram";
    t->model = m.type == 2 ? TOK_M_BPE : TOK_M_UNIGRAM;
    t->sp_unigram = m.type == 1;
    t->byte_fallback = m.byte_fallback;
    t->unk = id_of(t, m.unk);
    t->bos = id_of(t, m.bos);
    t->eos = id_of(t, m.eos);
    t->pad = id_of(t, m.pad);
    HY_TRY(tok_sp_steps(t, &m.sp, err));
    HY_TRY(add_controls(t, err));
    HY_TRY(tok_frozen_build(t, false, err));
    HY_TRY(m.type == 2 ? tok_bpe_from_scores(t, err) : tok_unigram_build(t, err));
    HY_TRY(tok_config_tokens(t, config, err));
    HY_TRY(tok_config_templates(t, config, err));
    t->add_bos = t->bos >= 0 && tok_json_bool(config, "add_bos_token", m.type == 2);
    t->add_eos = t->eos >= 0 && tok_json_bool(config, "add_eos_token", m.type == 1);
    if ((t->add_bos && !hy_ids_put(&t->first, t->bos)) ||
        (t->add_eos && !hy_ids_put(&t->last, t->eos)))
        return hy_fail_memory(err, "special tokens", sizeof(int32_t));
    return HY_OK;
}
