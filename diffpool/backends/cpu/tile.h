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
    for (i64 t = 0; t < k; t++) {
        const TILE_VECTOR *row = (const TILE_VECTOR *)(panel + t * ldp);
        TILE_VECTOR part[PARTS];
        for (int p = 0; p < PARTS; p++) part[p] = row[p];
        const float *column = a.start + t * a.right;
        __builtin_prefetch(column + PANEL, 0, 2); /* columns of Aᵀ that later tiles read */
#pragma GCC unroll 12
        for (int r = 0; r < rows; r++) {
            const float value = column[r * a.down];
            for (int p = 0; p < PARTS; p++) sum[r][p] += value * part[p];
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
