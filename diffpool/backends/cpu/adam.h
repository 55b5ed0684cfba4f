/* Adam with clipping and weight decay for M models, in one pass over their parameters. */

#define SHARE 32768 /* parameters of a piece */

typedef struct {
    i64 models, count; /* count: parameters of each model */
    float *parameters, *mean, *square;
    const float *gradient, *decay; /* decay may be NULL */
    const float *norm, *clip, *rate, *steps;
    const unsigned char *present;
    double first, second, eps;
} Adam;

FAST static void adam_piece(void *context, i64 piece, int rank) {
    const Adam *a = context;
    const i64 pieces = (a->count + SHARE - 1) / SHARE, m = piece / pieces;
    const i64 begin = m * a->count + piece % pieces * SHARE, end = MIN(begin + SHARE, (m + 1) * a->count);
    (void)rank;
    if (!a->present[m]) return;
    const double n = a->steps[m];
    const float ratio = a->clip[m] / (a->norm[m] + 1e-6f), clip = ratio < 1 ? ratio : ratio >= 1 ? 1 : ratio; /* or NaN */
    const float step = (float)(a->rate[m] / (1 - pow(a->first, n)));
    const float spread = (float)sqrt(1 - pow(a->second, n));
    const float first = (float)(1 - a->first), second = (float)(1 - a->second), eps = (float)a->eps;
#pragma omp simd
    for (i64 i = begin; i < end; i++) {
        float g = a->gradient[i] * clip;
        if (a->decay) g += a->parameters[i] * a->decay[i];
        const float mean = a->mean[i] + first * (g - a->mean[i]);
        const float square = a->square[i] + second * (g * g - a->square[i]);
        a->mean[i] = mean;
        a->square[i] = square;
        a->parameters[i] -= step * mean / (sqrtf(square) / spread + eps);
    }
}
