/* Matrix multiplication.
 *
 * C = A B (+ bias, or + C) for A [n, k] and B [k, m], each of them by rows or transposed. B is packed into panels of 16
 * columns; a tile of up to 6 rows stays in registers. */

#define PANEL 16
#define DEPTH 256
#define TILE 6
#define FEW 18 /* rows of A for which packing B does not pay */

typedef float Vector __attribute__((vector_size(32), aligned(4), may_alias));

typedef int Index __attribute__((vector_size(32)));
#if defined(__clang__)
#define SHUFFLE(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define SHUFFLE(a, b, ...) __builtin_shuffle(a, b, (Index){__VA_ARGS__})
#endif

typedef struct {
    const float *start;
    i64 down, right; /* strides between rows and between columns */
} Matrix;

/* Copy m < 16 floats, without a call. */
INLINE void copy_few(float *to, const float *from, i64 m) {
    if (m & 8) memcpy(to, from, 32), to += 8, from += 8;
    if (m & 4) memcpy(to, from, 16), to += 4, from += 4;
    if (m & 2) memcpy(to, from, 8), to += 2, from += 2;
    if (m & 1) *to = *from;
}

/* C = initial values (NULL: zero) + A · panel, for the first m columns of the panel */
INLINE void tile(const int rows, Matrix a, const float *panel, i64 ldp, i64 k, float *c, i64 ldc, i64 m,
                 const float *initial, i64 ldi) {
    Vector sum[TILE][2];
    float edge[PANEL];
    const Vector zero = {0};
    for (int r = 0; r < rows; r++) {
        if (!initial) {
            sum[r][0] = sum[r][1] = zero;
            continue;
        }
        const float *from = initial + r * ldi;
        if (m < PANEL) {
            memset(edge, 0, sizeof edge);
            copy_few(edge, from, m);
            from = edge;
        }
        sum[r][0] = *(const Vector *)from;
        sum[r][1] = *(const Vector *)(from + 8);
    }
    for (i64 t = 0; t < k; t++) {
        const Vector low = *(const Vector *)(panel + t * ldp), high = *(const Vector *)(panel + t * ldp + 8);
        const float *column = a.start + t * a.right;
        __builtin_prefetch(column + PANEL, 0, 2); /* columns of Aᵀ that later tiles read */
#pragma GCC unroll 6
        for (int r = 0; r < rows; r++) {
            const float value = column[r * a.down];
            sum[r][0] += value * low;
            sum[r][1] += value * high;
        }
    }
    for (int r = 0; r < rows; r++) {
        float *to = m < PANEL ? edge : c + r * ldc;
        *(Vector *)to = sum[r][0];
        *(Vector *)(to + 8) = sum[r][1];
        if (m < PANEL) copy_few(c + r * ldc, edge, m);
    }
}

/* to[u][v] = from[v][u], for 8 × 8 elements; `to` has rows of a panel. */
INLINE void transpose8(const float *from, i64 ld, float *to) {
    Vector row[8], part[8];
    for (int v = 0; v < 8; v++) row[v] = *(const Vector *)(from + v * ld);
    for (int v = 0; v < 8; v += 2) {
        part[v] = SHUFFLE(row[v], row[v + 1], 0, 8, 1, 9, 4, 12, 5, 13);
        part[v + 1] = SHUFFLE(row[v], row[v + 1], 2, 10, 3, 11, 6, 14, 7, 15);
    }
    for (int v = 0; v < 8; v += 4)
        for (int w = 0; w < 2; w++) {
            row[v + 2 * w] = SHUFFLE(part[v + w], part[v + w + 2], 0, 1, 8, 9, 4, 5, 12, 13);
            row[v + 2 * w + 1] = SHUFFLE(part[v + w], part[v + w + 2], 2, 3, 10, 11, 6, 7, 14, 15);
        }
    for (int u = 0; u < 4; u++) {
        *(Vector *)(to + u * PANEL) = SHUFFLE(row[u], row[u + 4], 0, 1, 2, 3, 8, 9, 10, 11);
        *(Vector *)(to + (u + 4) * PANEL) = SHUFFLE(row[u], row[u + 4], 4, 5, 6, 7, 12, 13, 14, 15);
    }
}

/* Pack `width` columns of Bᵀ, which are rows of B. */
INLINE void pack_transposed(const float *from, i64 ld, i64 depth, i64 width, float *panel) {
    i64 v = 0;
    for (; v + 8 <= width; v += 8) {
        i64 u = 0;
        for (; u + 8 <= depth; u += 8) transpose8(from + v * ld + u, ld, panel + u * PANEL + v);
        for (; u < depth; u++)
            for (i64 w = v; w < v + 8; w++) panel[u * PANEL + w] = from[w * ld + u];
    }
    for (; v < width; v++)
        for (i64 u = 0; u < depth; u++) panel[u * PANEL + v] = from[v * ld + u];
}

INLINE void multiply(Matrix a, Matrix b, float *c, i64 ldc, i64 n, i64 m, i64 k, const float *bias, int add) {
    float packed[DEPTH * PANEL] __attribute__((aligned(64)));
    if (k == 0 && !add)
        for (i64 i = 0; i < n; i++) {
            if (bias) memcpy(c + i * ldc, bias, m * sizeof(float));
            else memset(c + i * ldc, 0, m * sizeof(float));
        }
    for (i64 t = 0; t < k; t += DEPTH) {
        const i64 depth = MIN(k - t, DEPTH);
        for (i64 j = 0; j < m; j += PANEL) {
            const i64 width = MIN(m - j, PANEL);
            const float *from = b.start + t * b.down + j * b.right;
            const float *panel = packed;
            i64 ldp = PANEL;
            if (b.right == 1 && width == PANEL && n <= FEW) panel = from, ldp = b.down;
            else if (b.right == 1 && width == PANEL)
                for (i64 u = 0; u < depth; u++) {
                    const float *row = from + u * b.down;
                    *(Vector *)(packed + u * PANEL) = *(const Vector *)row;
                    *(Vector *)(packed + u * PANEL + 8) = *(const Vector *)(row + 8);
                }
            else {
                if (width < PANEL) memset(packed, 0, depth * PANEL * sizeof(float));
                if (b.right == 1)
                    for (i64 u = 0; u < depth; u++) copy_few(packed + u * PANEL, from + u * b.down, width);
                else pack_transposed(from, b.right, depth, width, packed);
            }
            for (i64 i = 0; i < n; i += TILE) {
                const Matrix part = {a.start + i * a.down + t * a.right, a.down, a.right};
                float *to = c + i * ldc + j;
                const int first = t == 0 && !add;
                const float *initial = !first ? to : bias ? bias + j : NULL;
                const i64 ldi = first ? 0 : ldc;
                switch (MIN(n - i, TILE)) {
                case 6: tile(6, part, panel, ldp, depth, to, ldc, width, initial, ldi); break;
                case 5: tile(5, part, panel, ldp, depth, to, ldc, width, initial, ldi); break;
                case 4: tile(4, part, panel, ldp, depth, to, ldc, width, initial, ldi); break;
                case 3: tile(3, part, panel, ldp, depth, to, ldc, width, initial, ldi); break;
                case 2: tile(2, part, panel, ldp, depth, to, ldc, width, initial, ldi); break;
                default: tile(1, part, panel, ldp, depth, to, ldc, width, initial, ldi);
                }
            }
        }
    }
}

INLINE Matrix by_rows(const float *start, i64 ld) { return (Matrix){start, ld, 1}; }
INLINE Matrix transposed(const float *start, i64 ld) { return (Matrix){start, 1, ld}; }

/* C = A B + bias, or C += A B; not inlined, to keep the code small. */
FAST static void gemm(Matrix a, Matrix b, float *c, i64 ldc, i64 n, i64 m, i64 k, const float *bias, int add) {
    multiply(a, b, c, ldc, n, m, k, bias, add);
}
