/* kern/x86, private: int8 dots by v_dpbusd (unsigned by signed bytes, four of them summed in 32 bits without saturation), of
 * any width. The includer defines it, and v_set32. Weights are the unsigned side: signed codes get 128 added, and
 * codes with an offset are moved up until it is 128 too. */
HY_INLINE bool mm_signed(hy_qtype t) { return false; }
HY_INLINE int mm_up(hy_qtype t) { return hy_pf_offset(t) ? __builtin_ctz(128u / (unsigned)hy_pf_offset(t)) : 0; }
HY_INLINE int mm_offset(hy_qtype t)
{
    bool is_signed = t == HY_Q_Q8_0 || t == HY_Q_IQ4_NL || t == HY_Q_IQ4_XS || t == HY_Q_MXFP4;
    return is_signed || hy_pf_offset(t) ? 128 : 0;
}

HY_INLINE const hy_act_group *x_at(const hy_act_group *x, size_t off);
HY_INLINE VI four_of(const hy_act_group *x, int i)
{
    int32_t four;
    memcpy(&four, x->q + 4 * i, 4);
    return v_set32(four);
}
HY_INLINE void v_dots(hy_qtype t, const VI *c, const hy_act_group *x, int h, const size_t *off, VI *sum, const int n)
{
    VI s[8];
    _Pragma("GCC unroll 8") for (int j = 0; j < n; j++) s[j] = v_zero();
    _Pragma("GCC unroll 4") for (int i = 0; i < 4; i++) {
        VI w = c[i];
        _Pragma("GCC unroll 8") for (int j = 0; j < n; j++) s[j] = v_dpbusd(s[j], w, four_of(x_at(x, off[j]), 4 * h + i));
    }
    _Pragma("GCC unroll 8") for (int j = 0; j < n; j++)
        sum[j] = v_add32(sum[j], v_sllv32(s[j], v_bcast32(x_at(x, off[j])->e + h)));
}

/* The same for the codes of two panels; an activation is broadcast once for both. */
HY_INLINE void v_dots2(hy_qtype t, const VI *c, const VI *d, const hy_act_group *x, int h, const size_t *off, VI *sum, const int n)
{
    VI s[8];
    _Pragma("GCC unroll 8") for (int j = 0; j < 2 * n; j++) s[j] = v_zero();
    _Pragma("GCC unroll 4") for (int i = 0; i < 4; i++) {
        VI w = c[i], v = d[i];
        _Pragma("GCC unroll 8") for (int j = 0; j < n; j++) {
            VI four = four_of(x_at(x, off[j]), 4 * h + i);
            s[2 * j] = v_dpbusd(s[2 * j], w, four);
            s[2 * j + 1] = v_dpbusd(s[2 * j + 1], v, four);
        }
    }
    _Pragma("GCC unroll 8") for (int j = 0; j < 2 * n; j++)
        sum[j] = v_add32(sum[j], v_sllv32(s[j], v_bcast32(x_at(x, off[j / 2])->e + h)));
}
