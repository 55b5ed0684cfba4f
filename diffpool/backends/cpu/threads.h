/* A thread pool for machines that are shared with other processes.
 *
 * A call divides its work into pieces; the calling thread and a few workers claim them one by one. When no piece is left,
 * the caller waits only for workers that are still processing one. A worker that is not scheduled (a busy machine, a
 * container with a small CPU quota) costs nothing if it has not claimed a piece. If it is preempted while processing one,
 * the caller waits, and then works without workers for a while. Results do not depend on the number of threads.
 *
 * Between calls, workers stay awake for one millisecond, because waking up takes 0.1 ms on a virtual machine. Meanwhile
 * they yield their cores to other processes. Then they sleep. */

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <time.h>

#define MAX_THREADS 64
#define AWAKE 1000000   /* ns before an idle worker sleeps */
#define PATIENCE 50000  /* ns before a waiting caller sleeps */
#define STALL 1000000   /* ns of waiting after which the machine counts as busy */
#define REST 100000000  /* ns without workers on a busy machine */

typedef void (*Piece)(void *context, i64 piece, int rank);

static struct {
    pthread_mutex_t lock;
    pthread_cond_t wake, done;
    int workers;          /* number of workers started */
    atomic_int openings;  /* workers that may still join the current call */
    atomic_int active;    /* workers in the current call */
    atomic_flag taken;    /* whether a call is running */
    atomic_llong rest;    /* the time until which callers do without workers */
    Piece piece;
    void *context;
    i64 pieces;
    atomic_llong next;
} pool = {.lock = PTHREAD_MUTEX_INITIALIZER, .wake = PTHREAD_COND_INITIALIZER, .done = PTHREAD_COND_INITIALIZER};

static _Thread_local int inside; /* whether this thread is working on a piece */

static i64 now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (i64)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* Stay awake for `ns` nanoseconds, or until *value is zero (nonzero if `wanted`). */
static void stay_awake(atomic_int *value, int wanted, i64 ns) {
    const i64 end = now() + ns;
    do
        for (int i = 0; i < 64; i++) {
            if ((atomic_load(value) != 0) == wanted) return;
#if defined(__x86_64__)
            __builtin_ia32_pause();
#endif
        }
    while (!sched_yield() && now() < end);
}

static void work(int rank) {
    inside = 1;
    for (i64 i; (i = atomic_fetch_add(&pool.next, 1)) < pool.pieces;) pool.piece(pool.context, i, rank);
    inside = 0;
}

static void *worker(void *unused) {
    (void)unused;
    for (;;) {
        stay_awake(&pool.openings, 1, AWAKE);
        pthread_mutex_lock(&pool.lock);
        while (!atomic_load(&pool.openings)) pthread_cond_wait(&pool.wake, &pool.lock);
        const int rank = atomic_fetch_sub(&pool.openings, 1);
        atomic_fetch_add(&pool.active, 1);
        pthread_mutex_unlock(&pool.lock);
        work(rank);
        pthread_mutex_lock(&pool.lock);
        if (atomic_fetch_sub(&pool.active, 1) == 1) pthread_cond_signal(&pool.done);
        pthread_mutex_unlock(&pool.lock);
    }
    return NULL;
}

/* A forked process has none of its parent's workers. */
static void forget_workers(void) {
    pthread_mutex_init(&pool.lock, NULL);
    pthread_cond_init(&pool.wake, NULL);
    pthread_cond_init(&pool.done, NULL);
    pool.workers = 0;
    atomic_store(&pool.openings, 0);
    atomic_store(&pool.active, 0);
    atomic_flag_clear(&pool.taken);
}

static void start_workers(int count) {
    static int registered;
    if (!registered) registered = !pthread_atfork(NULL, NULL, forget_workers);
    while (pool.workers < count) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, worker, NULL)) return; /* continue with fewer */
        pthread_detach(thread);
        pool.workers++;
    }
}

/* Call piece(context, i, rank) for each i < `pieces`, in any order, with rank < `threads`. The calling thread processes all
 * pieces itself inside another call, while another thread uses the workers, and while the machine counts as busy. */
static void parallel(Piece piece, void *context, i64 pieces, int threads) {
    threads = (int)MIN(MIN(threads, MAX_THREADS), pieces);
    if (threads <= 1 || inside || now() < atomic_load(&pool.rest) || atomic_flag_test_and_set(&pool.taken)) {
        for (i64 i = 0; i < pieces; i++) piece(context, i, 0);
        return;
    }
    const i64 start = now();
    start_workers(threads - 1);
    pthread_mutex_lock(&pool.lock);
    pool.piece = piece;
    pool.context = context;
    pool.pieces = pieces;
    atomic_store(&pool.next, 0);
    atomic_store(&pool.openings, MIN(threads - 1, pool.workers));
    pthread_cond_broadcast(&pool.wake);
    pthread_mutex_unlock(&pool.lock);
    work(0);
    pthread_mutex_lock(&pool.lock);
    atomic_store(&pool.openings, 0); /* no more workers may join */
    pthread_mutex_unlock(&pool.lock);
    const i64 begin = now();
    stay_awake(&pool.active, 0, PATIENCE);
    pthread_mutex_lock(&pool.lock);
    while (atomic_load(&pool.active)) pthread_cond_wait(&pool.done, &pool.lock);
    pthread_mutex_unlock(&pool.lock);
    const i64 end = now();
    if (end - begin > STALL + (begin - start)) atomic_store(&pool.rest, end + REST);
    atomic_flag_clear(&pool.taken);
}
