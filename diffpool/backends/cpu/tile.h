/* C = initial values (NULL: zero) + A · panel, for the first m columns of the panel.
 *
 * Included once for each width: TILE is the name of the function, TILE_VECTOR its vector, TILE_ROWS the number of rows whose
 * sums fit into the registers. */

#define PARTS (PANEL * (int)sizeof(float) / (int)sizeof(TILE_VECTOR))

INLINE void TILE(const int rows, Matrix a, const float *panel, i64 ldp, i64 k, float *c, i64 ldc, i64 m,
                 const float *initial, i64 ldi) {
    TILE_VECTOR sum[TILE_ROWS][PARTS];
    float edge[PANEL];
    const TILE_VECTOR zero = {0};
#pragma GCC unroll 12
    for (int r = 0; r < rows; r++) {
        if (!initial) {
            for (int p = 0; p < PARTS; p++) sum[r][p] = zero;
            continue;
        }
        const float *from = initial + r * ldi;
        if (m < PANEL) {
            memset(edge, 0, sizeof edge);
            copy_few(edge, from, m);
            from = edge;
        }
        for (int p = 0; p < PARTS; p++) sum[r][p] = ((const TILE_VECTOR *)from)[p];
    }
    /* one pointer for every third row: with a pointer or an offset for each row, there are too few registers */
    const float *every[4];
    for (int q = 0; q < 4; q++) every[q] = a.start + 3 * q * a.down;
    for (i64 t = 0; t < k; t++) {
        const TILE_VECTOR *row = (const TILE_VECTOR *)(panel + t * ldp);
        TILE_VECTOR part[PARTS];
        for (int p = 0; p < PARTS; p++) part[p] = row[p];
        __builtin_prefetch(every[0] + PANEL, 0, 2); /* columns of Aᵀ that later tiles read */
#pragma GCC unroll 12
        for (int r = 0; r < rows; r++) {
            const float value = every[r / 3][r % 3 * a.down];
            for (int p = 0; p < PARTS; p++) sum[r][p] += value * part[p];
        }
#pragma GCC unroll 4
        for (int q = 0; q < 4; q++) {
            every[q] += a.right;
            KEEP(every[q]);
        }
    }
#pragma GCC unroll 12
    for (int r = 0; r < rows; r++) {
        float *to = m < PANEL ? edge : c + r * ldc;
        for (int p = 0; p < PARTS; p++) ((TILE_VECTOR *)to)[p] = sum[r][p];
        if (m < PANEL) copy_few(c + r * ldc, edge, m);
    }
}

#undef PARTS
#undef TILE
#undef TILE_VECTOR
#undef TILE_ROWS
