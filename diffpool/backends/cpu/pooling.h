/* The pooling of a level: equations 3, 4 and 6 and the two losses. A graph is one piece of work. */

typedef struct {
    Graphs graphs;
    const i64 *clusters, *cluster; /* of each graph: how many, and the first */
    i64 width, d;        /* of logits, s and the coarse blocks; of z */
    const float *logits, *z, *squared_norm;
    float *s, *out_x, *out_adj, *degree, *inverse, *link, *entropy;
    float *propagated, *gram, *log_sum; /* kept: AS [N, W], SᵀS [K, W], log Σ exp of the logits [N] */
    const i64 *indptr_t, *indices_t;    /* Aᵀ by rows */
    const float *values_t;
    const float *of_s, *of_x, *of_adj, *of_degree, *of_inverse, *of_link, *of_entropy; /* gradients; NULL: zero */
    float *grad_logits, *grad_z, *grad_adj;
    float *work;        /* three blocks [largest, W] for each thread */
    i64 largest;        /* nodes or clusters of a graph */
} Pooling;

FAST static void pool_forward(void *context, i64 g, int rank) {
    const Pooling *p = context;
    const Graphs *graphs = &p->graphs;
    const i64 w = p->width, d = p->d;
    (void)rank;
    const i64 n = graphs->sizes[g], k = p->clusters[g], r = graphs->starts[g], c = p->cluster[g];
    float *s = p->s + r * w, *as = p->propagated + r * w, *adj = p->out_adj + c * w, *gram = p->gram + c * w;
    double entropy = 0, norm = 0, gram_norm = 0, trace = 0;
    for (i64 i = 0; i < n; i++) {
        const float *logits = p->logits + (r + i) * w;
        float *row = s + i * w, largest = -INFINITY, sum = 0, mean = 0;
        for (i64 j = 0; j < k; j++) largest = logits[j] > largest ? logits[j] : largest;
        for (i64 j = 0; j < k; j++) {
            row[j] = expf(logits[j] - largest);
            sum += row[j];
        }
        for (i64 j = 0; j < k; j++) {
            row[j] /= sum;
            mean += row[j] * (logits[j] - largest);
        }
        memset(row + k, 0, (w - k) * sizeof(float));
        p->log_sum[r + i] = largest + logf(sum);
        entropy += logf(sum) - mean;
    }
    if (graphs->dense) {
        const float *a = graphs->adj + r * graphs->lda;
        gemm(by_rows(a, graphs->lda), by_rows(s, w), as, w, n, k, n, NULL, 0);
        for (i64 i = 0; i < n; i++) norm += dot(a + i * graphs->lda, a + i * graphs->lda, n);
    } else {
        norm = p->squared_norm[g];
        for (i64 i = 0; i < n; i++) {
            float *row = as + i * w;
            memset(row, 0, k * sizeof(float));
            for (i64 e = graphs->indptr[r + i]; e < graphs->indptr[r + i + 1]; e++) {
                const float v = graphs->values ? graphs->values[e] : 1.0f;
                const float *from = p->s + graphs->indices[e] * w;
                for (i64 j = 0; j < k; j++) row[j] += v * from[j];
            }
        }
    }
    gemm(transposed(s, w), by_rows(p->z + r * d, d), p->out_x + c * d, d, k, d, n, NULL, 0);
    gemm(transposed(s, w), by_rows(as, w), adj, w, k, k, n, NULL, 0);
    gemm(transposed(s, w), by_rows(s, w), gram, w, k, k, n, NULL, 0);
    for (i64 i = 0; i < k; i++) {
        float degree = 0;
        for (i64 j = 0; j < k; j++) degree += adj[i * w + j];
        memset(adj + i * w + k, 0, (w - k) * sizeof(float));
        p->degree[c + i] = degree;
        p->inverse[c + i] = degree > 1e-12f ? 1 / degree : 0;
        gram_norm += dot(gram + i * w, gram + i * w, k);
        trace += adj[i * w + i];
    }
    /* A difference within rounding counts as zero. */
    const double largest = norm + gram_norm, squared = largest - 2 * trace;
    p->link[g] = squared > 8 * FLT_EPSILON * largest + FLT_MIN ? (float)sqrt(squared) : 0;
    p->entropy[g] = n && k ? (float)(entropy / n) : 0;
}

FAST static void pool_backward(void *context, i64 g, int rank) {
    const Pooling *p = context;
    const Graphs *graphs = &p->graphs;
    const i64 w = p->width, d = p->d;
    float *work = p->work + rank * 3 * p->largest * w;
    const i64 n = graphs->sizes[g], k = p->clusters[g], r = graphs->starts[g], c = p->cluster[g];
    const float *s = p->s + r * w, *as = p->propagated + r * w, *gram = p->gram + c * w;
    float *of_adj = work, *through = work + p->largest * w, *of_s = through + p->largest * w;
    const float half = p->of_link && p->link[g] > 0 ? p->of_link[g] / (2 * p->link[g]) : 0; /* of the square */
    for (i64 i = 0; i < k; i++) { /* of A': itself, its degrees, its trace */
        float more = p->of_degree ? p->of_degree[c + i] : 0;
        const float inverse = p->inverse[c + i];
        if (p->of_inverse) more -= p->of_inverse[c + i] * inverse * inverse;
        for (i64 j = 0; j < k; j++) of_adj[i * w + j] = (p->of_adj ? p->of_adj[(c + i) * w + j] : 0) + more;
        of_adj[i * w + i] -= 2 * half;
    }
    for (i64 i = 0; i < n; i++) {
        if (p->of_s) memcpy(of_s + i * w, p->of_s + (r + i) * w, k * sizeof(float));
        else memset(of_s + i * w, 0, k * sizeof(float));
    }
    if (p->of_x) {
        gemm(by_rows(p->z + r * d, d), transposed(p->of_x + c * d, d), of_s, w, n, k, d, NULL, 1);
        gemm(by_rows(s, w), by_rows(p->of_x + c * d, d), p->grad_z + r * d, d, n, d, k, NULL, 0);
    } else
        memset(p->grad_z + r * d, 0, n * d * sizeof(float));
    gemm(by_rows(as, w), transposed(of_adj, w), of_s, w, n, k, k, NULL, 1);
    gemm(by_rows(s, w), by_rows(of_adj, w), through, w, n, k, k, NULL, 0);
    if (graphs->dense) {
        const float *a = graphs->adj + r * graphs->lda;
        gemm(transposed(a, graphs->lda), by_rows(through, w), of_s, w, n, k, n, NULL, 1);
        if (p->grad_adj) {
            float *to = p->grad_adj + r * graphs->lda;
            gemm(by_rows(through, w), transposed(s, w), to, graphs->lda, n, n, k, NULL, 0);
            for (i64 i = 0; i < n; i++) {
                for (i64 j = 0; j < n; j++) to[i * graphs->lda + j] += 2 * half * a[i * graphs->lda + j];
                memset(to + i * graphs->lda + n, 0, (graphs->lda - n) * sizeof(float));
            }
        }
    } else
        for (i64 i = 0; i < n; i++)
            for (i64 e = p->indptr_t[r + i]; e < p->indptr_t[r + i + 1]; e++) {
                const float v = p->values_t ? p->values_t[e] : 1.0f;
                const float *from = through + (p->indices_t[e] - r) * w;
                for (i64 j = 0; j < k; j++) of_s[i * w + j] += v * from[j];
            }
    for (i64 i = 0; i < k; i++) /* of SᵀS: 2 half · SᵀS, twice because S stands there twice */
        for (i64 j = 0; j < k; j++) of_adj[i * w + j] = 4 * half * gram[i * w + j];
    gemm(by_rows(s, w), by_rows(of_adj, w), of_s, w, n, k, k, NULL, 1);
    const float spread = p->of_entropy && n ? p->of_entropy[g] / n : 0;
    for (i64 i = 0; i < n; i++) {
        const float *row = s + i * w, *logits = p->logits + (r + i) * w;
        float *g_s = of_s + i * w, *to = p->grad_logits + (r + i) * w, along = 0;
        for (i64 j = 0; j < k; j++) {
            g_s[j] -= spread * (logits[j] - p->log_sum[r + i]);
            along += g_s[j] * row[j];
        }
        for (i64 j = 0; j < k; j++) to[j] = row[j] * (g_s[j] - along);
        memset(to + k, 0, (w - k) * sizeof(float));
    }
}
