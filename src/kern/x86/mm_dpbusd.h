/* kern/x86, private: int8 dots by v_dpbusd (unsigned by signed bytes, four of them summed in 32 bits without saturation), of
 * any width. The includer defines it, and v_set32. Weights are the unsigned side: signed codes get 128 added. */
HY_INLINE bool mm_signed(hy_qtype t) { return false; }
HY_INLINE int mm_offset(hy_qtype t)
{
    bool is_signed = t == HY_Q_Q8_0 || t == HY_Q_IQ4_NL || t == HY_Q_IQ4_XS || t == HY_Q_MXFP4;
    return is_signed ? 128 : hy_pf_offset(t);
}

HY_INLINE const int8_t *x_q(const int8_t *q, size_t off);
HY_INLINE void v_dots(hy_qtype t, const VI *c, const int8_t *q, const size_t *off, VI *sum, const int n)
{
    _Pragma("GCC unroll 4") for (int i = 0; i < 4; i++) {
        VI w = c[i];
        _Pragma("GCC unroll 8") for (int j = 0; j < n; j++) {
            int32_t four;
            memcpy(&four, x_q(q, off[j]) + 4 * i, 4);
            sum[j] = v_dpbusd(sum[j], w, v_set32(four));
        }
    }
}

/* The same for the codes of two panels; an activation is broadcast once for both. */
HY_INLINE void v_dots2(const VI *c, const VI *d, const int8_t *q, const size_t *off, VI *sum, const int n)
{
    _Pragma("GCC unroll 4") for (int i = 0; i < 4; i++) {
        VI w = c[i], v = d[i];
        _Pragma("GCC unroll 8") for (int j = 0; j < n; j++) {
            int32_t four;
            memcpy(&four, x_q(q, off[j]) + 4 * i, 4);
            VI x = v_set32(four);
            sum[2 * j] = v_dpbusd(sum[2 * j], w, x);
            sum[2 * j + 1] = v_dpbusd(sum[2 * j + 1], v, x);
        }
    }
}
