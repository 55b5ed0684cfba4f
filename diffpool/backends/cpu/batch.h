/* Batches: which row belongs to which graph, and the edges of graphs selected from a data set. */

/* The graphs of M models. First the rows of model 0, then those of model 1, and so on. */
typedef struct {
    i64 models, rows, graphs;  /* rows of each model, graphs of all */
    const i64 *sizes;          /* [graphs] */
    i64 *starts;               /* [graphs] */
    i64 *graph, *index, *slot; /* [models * rows] each */
} Tables;

static void fill_tables(const Tables *t) {
    const i64 own = t->graphs / MAX(t->models, 1);
    i64 largest = 0;
    for (i64 g = 0; g < t->graphs; g++) largest = MAX(largest, t->sizes[g]);
    for (i64 m = 0; m < t->models; m++) {
        i64 row = m * t->rows;
        for (i64 g = m * own; g < (m + 1) * own; g++) {
            t->starts[g] = row;
            for (i64 i = 0; i < t->sizes[g]; i++, row++) {
                t->graph[row] = g;
                t->index[row] = i;
                t->slot[row] = g * largest + i;
            }
        }
        for (; row < (m + 1) * t->rows; row++) { /* padding rows */
            t->graph[row] = t->graphs;
            t->index[row] = 0;
            t->slot[row] = t->graphs * largest;
        }
    }
}

/* Graphs selected from a block-diagonal matrix in CSR format. Rows of no graph are copies of its last row. */
typedef struct {
    i64 all, entries;            /* rows and entries of the matrix */
    const i64 *indptr, *indices; /* [all + 1], [entries] */
    i64 n, graphs;               /* rows of the result, and graphs in it */
    const i64 *sizes, *starts;   /* [graphs]: their rows in the result */
    const i64 *first;            /* [graphs]: their first rows in the matrix */
    i64 *row, *entry;            /* [n], [ends[n]]: where each row and entry of the result comes from */
    i64 *ends, *columns;         /* [n + 1], [ends[n]]: indptr and indices of the result */
} Selection;

static i64 count_entries(const Selection *s) {
    i64 total = 0, others = s->n;
    for (i64 g = 0; g < s->graphs; g++) {
        total += s->indptr[s->first[g] + s->sizes[g]] - s->indptr[s->first[g]];
        others -= s->sizes[g];
    }
    return others ? total + others * (s->entries - s->indptr[s->all - 1]) : total;
}

static void select_rows(const Selection *s) {
    i64 row = 0, end = 0;
    for (i64 g = 0; g <= s->graphs; g++) {
        const int last = g == s->graphs;
        const i64 start = last ? s->n : s->starts[g], stop = last ? s->n : start + s->sizes[g];
        for (; row < stop; row++) {
            const i64 shift = row < start ? 0 : s->first[g] - start; /* old - new */
            const i64 from = row < start ? s->all - 1 : row + shift;
            s->row[row] = from;
            s->ends[row] = end;
            for (i64 e = s->indptr[from]; e < s->indptr[from + 1]; e++, end++) {
                s->entry[end] = e;
                s->columns[end] = s->indices[e] - shift;
            }
        }
    }
    s->ends[row] = end;
}
