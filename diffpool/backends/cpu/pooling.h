/* The pooling of a level: equations 3, 4 and 6 and the two losses, with one task per graph. */

#define LOG_MIN -87.33654f /* log FLT_MIN: the logarithm of an assignment of zero counts as this */

typedef struct {
    Graphs graphs;
    const i64 *clusters, *cluster; /* number of clusters and first cluster of each graph */
    i64 k;               /* rows of the coarser level */
    i64 width, d;        /* columns of logits, s and coarse blocks; columns of z */
    const float *logits, *z, *squared_norm;
    float *s, *out_x, *out_adj, *degree, *inverse, *link, *entropy;
    float *propagated, *gram, *log_sum; /* saved for backward: AS [N, W], SᵀS [K, W], log Σ exp of the logits [N] */
    const i64 *indptr_t, *indices_t;    /* Aᵀ by rows */
    const float *values_t;
    const float *d_s, *d_x, *d_adj, *d_degree, *d_inverse, *d_link, *d_entropy; /* gradients of the outputs; NULL: zero */
    float *grad_logits, *grad_z, *grad_adj;
    float *work;        /* workspace: three blocks [largest, W] per thread */
    i64 largest;        /* the maximum number of nodes or clusters of a graph */
} Pooling;

/* Set the rows of a matrix [n, d] that belong to no graph to zero. */
static void clear_gaps(const i64 *sizes, const i64 *starts, i64 graphs, i64 n, float *matrix, i64 d) {
    i64 end = 0;
    for (i64 g = 0; g <= graphs; g++) {
        const i64 next = g < graphs ? starts[g] : n;
        if (next > end) memset(matrix + end * d, 0, (next - end) * d * sizeof(float));
        if (g < graphs) end = next + sizes[g];
    }
}

#define CLEAR_NODES(p, field, d_) clear_gaps((p)->graphs.sizes, (p)->graphs.starts, (p)->graphs.graphs, (p)->graphs.n, (p)->field, d_)
#define CLEAR_CLUSTERS(p, field, d_) clear_gaps((p)->clusters, (p)->cluster, (p)->graphs.graphs, (p)->k, (p)->field, d_)

static void clear_outputs(const Pooling *p) {
    CLEAR_NODES(p, s, p->width);
    CLEAR_CLUSTERS(p, out_x, p->d);
    CLEAR_CLUSTERS(p, out_adj, p->width);
    CLEAR_CLUSTERS(p, degree, 1);
    CLEAR_CLUSTERS(p, inverse, 1);
}

static void clear_gradients(const Pooling *p) {
    CLEAR_NODES(p, grad_logits, p->width);
    CLEAR_NODES(p, grad_z, p->d);
    if (p->grad_adj) CLEAR_NODES(p, grad_adj, p->graphs.lda);
}

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
            if (row[j] > 0) mean += row[j] * (logits[j] - largest); /* 0 · log 0 = 0 */
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
    /* A value within rounding error of zero counts as zero. */
    const double largest = norm + gram_norm, squared = largest - 2 * trace;
    p->link[g] = squared <= 8 * FLT_EPSILON * largest + FLT_MIN ? 0 : (float)sqrt(squared); /* NaN stays NaN */
    p->entropy[g] = n && k ? (float)(entropy / n) : 0;
}

FAST static void pool_backward(void *context, i64 g, int rank) {
    const Pooling *p = context;
    const Graphs *graphs = &p->graphs;
    const i64 w = p->width, d = p->d;
    float *work = p->work + rank * 3 * p->largest * w;
    const i64 n = graphs->sizes[g], k = p->clusters[g], r = graphs->starts[g], c = p->cluster[g];
    const float *s = p->s + r * w, *as = p->propagated + r * w, *gram = p->gram + c * w;
    float *d_adj = work, *through = work + p->largest * w, *d_s = through + p->largest * w;
    const float half = p->d_link && !(p->link[g] <= 0) ? p->d_link[g] / (2 * p->link[g]) : 0; /* gradient of the squared loss */
    for (i64 i = 0; i < k; i++) { /* gradient of A': from A', its degrees and its trace */
        float more = p->d_degree ? p->d_degree[c + i] : 0;
        const float inverse = p->inverse[c + i];
        if (p->d_inverse) more -= p->d_inverse[c + i] * inverse * inverse;
        for (i64 j = 0; j < k; j++) d_adj[i * w + j] = (p->d_adj ? p->d_adj[(c + i) * w + j] : 0) + more;
        d_adj[i * w + i] -= 2 * half;
    }
    for (i64 i = 0; i < n; i++) {
        if (p->d_s) memcpy(d_s + i * w, p->d_s + (r + i) * w, k * sizeof(float));
        else memset(d_s + i * w, 0, k * sizeof(float));
    }
    if (p->d_x) {
        gemm(by_rows(p->z + r * d, d), transposed(p->d_x + c * d, d), d_s, w, n, k, d, NULL, 1);
        gemm(by_rows(s, w), by_rows(p->d_x + c * d, d), p->grad_z + r * d, d, n, d, k, NULL, 0);
    } else
        memset(p->grad_z + r * d, 0, n * d * sizeof(float));
    gemm(by_rows(as, w), transposed(d_adj, w), d_s, w, n, k, k, NULL, 1);
    gemm(by_rows(s, w), by_rows(d_adj, w), through, w, n, k, k, NULL, 0);
    if (graphs->dense) {
        const float *a = graphs->adj + r * graphs->lda;
        gemm(transposed(a, graphs->lda), by_rows(through, w), d_s, w, n, k, n, NULL, 1);
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
                for (i64 j = 0; j < k; j++) d_s[i * w + j] += v * from[j];
            }
    for (i64 i = 0; i < k; i++) /* gradient of SᵀS: 2 half · SᵀS, doubled because S occurs twice */
        for (i64 j = 0; j < k; j++) d_adj[i * w + j] = 4 * half * gram[i * w + j];
    gemm(by_rows(s, w), by_rows(d_adj, w), d_s, w, n, k, k, NULL, 1);
    const float spread = p->d_entropy && n ? p->d_entropy[g] / n : 0;
    for (i64 i = 0; i < n; i++) {
        const float *row = s + i * w, *logits = p->logits + (r + i) * w;
        float *g_s = d_s + i * w, *to = p->grad_logits + (r + i) * w, along = 0;
        for (i64 j = 0; j < k; j++) {
            const float log_s = logits[j] - p->log_sum[r + i];
            g_s[j] -= spread * (log_s < LOG_MIN ? LOG_MIN : log_s);
            along += g_s[j] * row[j];
        }
        for (i64 j = 0; j < k; j++) to[j] = row[j] * (g_s[j] - along);
        memset(to + k, 0, (w - k) * sizeof(float));
    }
}
