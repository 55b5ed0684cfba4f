/* Adam with clipping and weight decay for M models, given the gradient of each of their parameters. */

typedef struct {
    const float *gradient; /* [M, count] */
    i64 begin, count;      /* columns of this parameter in the matrix of all parameters */
} Part;

typedef struct {
    i64 models, columns, parts;
    const Part *part;
    float *parameters, *mean, *square; /* [M, columns] */
    const float *decay;                /* the same, or NULL */
    const float *clip, *rate, *steps;  /* [M] */
    const unsigned char *present;      /* [M] */
    double first, second, eps;
    struct { float clip, step, spread; } *factors; /* [M] */
} Adam;

/* The norm of a model's gradient, and the factors of its step. */
FAST static void adam_factors(void *context, i64 model, int rank) {
    const Adam *a = context;
    double total = 0;
    (void)rank;
    for (i64 p = 0; p < a->parts; p++) {
        const i64 count = a->part[p].count;
        const float *gradient = a->part[p].gradient + model * count;
        double sum = 0;
#pragma omp simd reduction(+ : sum)
        for (i64 i = 0; i < count; i++) sum += (double)gradient[i] * gradient[i];
        total += sum;
    }
    const double n = a->steps[model];
    const float ratio = a->clip[model] / ((float)sqrt(total) + 1e-6f);
    a->factors[model].clip = ratio < 1 ? ratio : ratio >= 1 ? 1 : ratio; /* or NaN */
    a->factors[model].step = (float)(a->rate[model] / (1 - pow(a->first, n)));
    a->factors[model].spread = (float)sqrt(1 - pow(a->second, n));
}

FAST static void adam_piece(void *context, i64 piece, int rank) {
    const Adam *a = context;
    const i64 m = piece / a->parts;
    const Part *part = a->part + piece % a->parts;
    (void)rank;
    if (!a->present[m]) return;
    const float clip = a->factors[m].clip, step = a->factors[m].step, spread = a->factors[m].spread;
    const float first = (float)(1 - a->first), second = (float)(1 - a->second), eps = (float)a->eps;
    const i64 start = m * a->columns + part->begin;
    const float *gradient = part->gradient + m * part->count, *decays = a->decay ? a->decay + start : NULL;
    float *parameters = a->parameters + start, *means = a->mean + start, *squares = a->square + start;
#pragma omp simd
    for (i64 i = 0; i < part->count; i++) {
        float g = gradient[i] * clip;
        if (decays) g += parameters[i] * decays[i];
        const float mean = means[i] + first * (g - means[i]);
        const float square = squares[i] + second * (g * g - squares[i]);
        means[i] = mean;
        squares[i] = square;
        parameters[i] -= step * mean / (sqrtf(square) / spread + eps);
    }
}
