/* What Python calls in libhorovod_opt_io.so: horovod_opt/io/native.py has the same table.

   Functions that return int return one of HIO_*; those that return a pointer return NULL on failure.
   hio_error() then says what was wrong. Numbers of steps, loads and bytes are 64 bits wide. */
#ifndef HOROVOD_OPT_IO_C_API_H_
#define HOROVOD_OPT_IO_C_API_H_

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define HIO_API __attribute__((visibility("default")))

/* Raised with every change of what is declared here. */
#define HIO_VERSION 8

enum {
  HIO_OK = 0,
  HIO_TIMEOUT = 1,     /* not all yet: call again */
  HIO_OVER = 2,        /* the step, or the load, is over */
  HIO_CLOSED = 3,      /* the leader has closed the ring, or this process has */
  HIO_LEADER_DIED = 4,
  HIO_RANK_DIED = 5,   /* hio_dead_rank() */
  HIO_TOO_FAR = 6,     /* too many steps after one that is not done */
  HIO_LEADER_FAILED = 7, /* it cannot go on; hio_error() says why */
  HIO_FAILED = -1      /* hio_error() */
};

typedef struct HioRing HioRing;

HIO_API int hio_version(void);

/* Of the last call of this thread that failed. */
HIO_API const char* hio_error(void);

/* CRC-32C of `bytes` bytes that follow those that `crc` is of. */
HIO_API uint32_t hio_crc32c(uint32_t crc, const void* data, int64_t bytes);

/* Keyed permutations of range(n), see order/permutation.h: out[i] is where numbers[i] goes, or what goes to
   it if `forward` is 0. `n` and the two parts of the key have one element, or one for each number.
   HIO_FAILED, and `out` is undefined: n is not 1 to 2^62, or a number is not below it. */
HIO_API int hio_permute(int64_t count, const uint64_t* numbers, int64_t ns, const uint64_t* n,
                        int64_t keys, const uint64_t* first, const uint64_t* step, int forward,
                        uint64_t* out);

/* The order of an epoch, as horovod_opt/io/order/step_order.py fills it in: of chunks, their number,
   samples, the turn of the short one and what it lacks; of each shard, its first chunk (by turn), its
   first place and the chunks of its first window (shard_chunk has one element more); of each stage
   of the round robin, its first position and row, its width, and the turn of each shard in it, -1 for
   one that has ended (stage_start has one element more). */
typedef struct HioOrder {
  int64_t chunks, chunk_samples, short_turn, missing;
  int64_t shards, stages, window, is_shuffled;
  uint64_t chunk_key[2], window_key[2];
  const int64_t *shard_chunk, *shard_place, *first_window;
  const int64_t *stage_start, *stage_row, *stage_width, *stage_turn;
} HioOrder;

/* Of `steps` steps of so many positions from `begin` on: the samples from number `first` to
   `end` - 1 of each, sorted by place, see order/step_order.h. */
HIO_API int hio_order_take(const HioOrder* order, int64_t begin, int64_t positions, int64_t steps,
                           int64_t first, int64_t end, int64_t* taken_positions,
                           int64_t* samples);
/* The first and last steps, which count from `number` on, that need the chunk of each turn; and how
   many of the samples of each window they take. */
HIO_API int hio_order_mark(const HioOrder* order, int64_t begin, int64_t positions, int64_t steps,
                           int64_t first, int64_t end, int64_t number, int64_t* firsts,
                           int64_t* lasts, int64_t* counts);
/* Which of the samples of these windows they take. */
HIO_API int hio_order_find(const HioOrder* order, int64_t begin, int64_t positions, int64_t steps,
                           int64_t first, int64_t end, int64_t windows, const int64_t* turns,
                           const int64_t* begins, uint8_t* taken);

/* A new ring, of the leader: steps begin with `start`. */
HIO_API HioRing* hio_create(int64_t ranks, int64_t slots, int64_t slot_bytes, int64_t memory,
                            int64_t start);
/* The descriptor to hand over; it stays the ring's. */
HIO_API int hio_file(const HioRing* ring);
/* The ring that was handed over; takes `file` in any case. */
HIO_API HioRing* hio_attach(int file);
/* Wakes this process's waiters when the other end of the socket is gone. The socket stays open
   until hio_free(). */
HIO_API int hio_watch(HioRing* ring, int socket);

/* The data set's files, before hio_start(), hio_gather() and hio_take(). `names` are one after the
   other, each ends before ends[i]; the arrays must stay until hio_free(). */
HIO_API int hio_files(HioRing* ring, const char* root, int64_t files, const char* names,
                      const int64_t* ends, const int64_t* bytes, const int64_t* mtime_ns);
/* Starts the leader's threads. `leave_cached`: what is in the page cache is not read into the ring;
   ranks then find it there. */
HIO_API int hio_start(HioRing* ring, int threads, int leave_cached);
/* Whether these loads can come next, before their extents are known; HIO_FAILED: the memory is too
   small, or their order is wrong, and none of them counts. */
HIO_API int hio_announce(HioRing* ring, int64_t loads, const int64_t* first, const int64_t* last,
                         const int64_t* bytes);
/* The next loads: steps [first, last] need load i, of bytes[i], made of the extents from
   extents[i] to extents[i + 1]: bytes of a file from an offset, and their place in the slot. Waits
   while many loads are not begun. */
HIO_API int hio_loads(HioRing* ring, int64_t loads, const int64_t* first, const int64_t* last,
                      const int64_t* bytes, const int64_t* extents, const int32_t* file,
                      const int64_t* offset, const int64_t* length, const int64_t* place);

/* Copies records from number *begin on to out + out_place[i], see node_cache/gather.h; checksum may be NULL.
   HIO_TIMEOUT: records from *begin on were not there within `milliseconds`. */
HIO_API int hio_gather(HioRing* ring, int64_t rank, int64_t step, int64_t records,
                       const int64_t* load, const int64_t* place, const int64_t* size,
                       const uint32_t* checksum, const int32_t* file, const int64_t* offset,
                       void* out, const int64_t* out_place,
                       int32_t* status, int64_t* begin, int64_t milliseconds);
/* Takes whole steps, from *taken to `steps` - 1, and is done with each: step i is `first` + i in the
   ring, its records end before ends[i] and come to out + out_place[] - origin. Waits for the first
   one, as hio_gather(); each of those behind it is taken if all of it is there already. *taken, *begin (the
   next record) and *bad (the number of records whose status is not 0) go on.
   HIO_TIMEOUT: the first step was not there within `milliseconds`; call it again, with the same `out`. */
HIO_API int hio_take(HioRing* ring, int64_t rank, int64_t first, int64_t steps, const int64_t* ends,
                     const int64_t* load, const int64_t* place, const int64_t* size,
                     const uint32_t* checksum, const int32_t* file, const int64_t* offset,
                     const int64_t* out_place, int32_t* status, void* out, int64_t origin,
                     int64_t* taken, int64_t* begin, int64_t* bad,
                     int64_t milliseconds);
/* Of Python's C API: PyList_New, PyList_SetItem, PyBytes_FromStringAndSize, PyBytes_AsString and
   Py_DecRef. */
typedef struct HioPython {
  void* (*new_list)(int64_t items);
  int (*set_item)(void* list, int64_t i, void* item);
  void* (*new_bytes)(const char* data, int64_t bytes);
  char* (*data_of)(void* bytes);
  void (*release)(void* object);
} HioPython;

/* See api/byte_lists.h. To be called with Python's lock. */
HIO_API void* hio_byte_lists(const HioPython* python, int64_t lists, const int64_t* ends,
                             const int64_t* sizes, int64_t* places);

/* Steps that somebody takes without Python's lock: see order/step_queue.h. A thread of Python feeds a
   queue, and answers what its taker asks. Both sides have a handle of their own, which may outlive
   the ring: hio_free() detaches the ring's queues. */
typedef struct HioQueue HioQueue;

enum { HIO_INFOS = 6 }; /* whole numbers that a batch says of itself */
enum { HIO_ROOM = 0, HIO_ASKED = 1, HIO_STOPPED = 2 };

/* The feeder's handle of a new one, of a rank's steps. */
HIO_API HioQueue* hio_queue_create(HioRing* ring, int64_t rank);
/* The taker's handle, once. */
HIO_API HioQueue* hio_queue_claim(int64_t number);
/* Of either handle; no other call with it may be running, or come after it. */
HIO_API void hio_queue_free(HioQueue* queue);
HIO_API int64_t hio_queue_number(const HioQueue* queue);
HIO_API int64_t hio_queue_handed_out(const HioQueue* queue);
/* Whether the taker was told that nothing follows. */
HIO_API int hio_queue_is_over(const HioQueue* queue);
/* Nanoseconds, for the steps that were handed out, by whoever wanted them. */
HIO_API int64_t hio_queue_waited(const HioQueue* queue);
/* The pass is left: both sides return from their waits. */
HIO_API void hio_queue_stop(HioQueue* queue);

/* The feeder sleeps until there is HIO_ROOM for steps, it is HIO_ASKED something, or the queue is
   HIO_STOPPED. */
HIO_API int hio_queue_wait(HioQueue* queue);
/* Steps that follow each other in the ring from `ring_step` on: step i has the samples before
   ends[i], of `parts` records each; infos[steps * HIO_INFOS]. checksum and labels may be NULL.
   Everything is copied. */
HIO_API int hio_queue_add(HioQueue* queue, int64_t ring_step, int64_t steps, int64_t parts,
                          const int64_t* ends, const int64_t* load, const int64_t* place,
                          const int64_t* size, const uint32_t* checksum, const int32_t* file,
                          const int64_t* offset, const int64_t* labels, const int64_t* infos,
                          const float* weights);
HIO_API void hio_queue_finish(HioQueue* queue, int has_failed);
/* Of the step that is number `step` of those added; HIO_OK: there are statuses, all that are not 0
   are bad. Pointers are good until the next call of this function. */
typedef struct HioQuestion {
  int64_t number, step, code, records;
  const int32_t* statuses;
  const char* text;
} HioQuestion;
HIO_API void hio_queue_question(HioQueue* queue, HioQuestion* question);
/* The batch goes on with its good samples: is_good[samples], their number, and its weight. */
HIO_API void hio_queue_go_on(HioQueue* queue, int64_t number, int64_t samples,
                             const uint8_t* is_good, int64_t size, float weight);
/* It is an error; `is_input`: of the caller's. */
HIO_API void hio_queue_refuse(HioQueue* queue, int64_t number, const char* error, int is_input);

/* sizes[samples * parts]; labels may be NULL; infos[HIO_INFOS]. Good until it is handed out. */
typedef struct HioStep {
  int64_t samples, parts;
  const int64_t *sizes, *labels, *infos;
  float weight;
} HioStep;
/* The next step. HIO_TIMEOUT; HIO_OVER: there is none; HIO_CLOSED: the pass is left; HIO_FAILED:
   the feeder has, ask it why. */
HIO_API int hio_queue_look(HioQueue* queue, HioStep* step, int64_t milliseconds);
/* Its records from *begin on to the addresses in `places`, and the rank is done with it. *bad: of
   all its records, how many are. Returns what hio_gather() does. */
HIO_API int hio_queue_take(HioQueue* queue, const int64_t* places, int64_t* begin, int64_t* bad,
                           int64_t milliseconds);
/* error is NULL: go on with the good samples. Good until the next call of hio_queue_ask(). */
typedef struct HioAnswer {
  const char* error;
  int is_input;
  const uint8_t* is_good;
  int64_t size;
  float weight;
} HioAnswer;
/* Asks the feeder about `code`, which hio_queue_look() or hio_queue_take() has returned, HIO_OK
   with bad records; `text`: of HIO_FAILED. HIO_TIMEOUT: call it again; HIO_CLOSED: the pass is left. */
HIO_API int hio_queue_ask(HioQueue* queue, int code, const char* text, HioAnswer* answer,
                          int64_t milliseconds);
/* It was wanted so long ago. */
HIO_API void hio_queue_hand_out(HioQueue* queue, int64_t nanoseconds);

HIO_API int hio_done(HioRing* ring, int64_t rank, int64_t step);
HIO_API int hio_skip_to(HioRing* ring, int64_t rank, int64_t step);
HIO_API int hio_leave(HioRing* ring, int64_t rank);
HIO_API int hio_has_left(const HioRing* ring, int64_t rank);
HIO_API int64_t hio_cursor(const HioRing* ring, int64_t rank);

/* The leader: bytes read, requests, loads, loads that nobody needed any longer, live bytes, most
   live bytes, most bytes used, bytes that were left in the page cache. */
HIO_API void hio_leader_stats(const HioRing* ring, int64_t stats[8]);
/* A rank and its workers: waits, nanoseconds of them, records, bytes taken, records of the page
   cache. */
HIO_API void hio_rank_stats(const HioRing* ring, int64_t rank, int64_t stats[5]);

/* HIO_OK, or why nobody can go on. */
HIO_API int hio_state(const HioRing* ring);
HIO_API int64_t hio_dead_rank(const HioRing* ring);
/* Ends the ring for all processes, because this rank has died; negative: it is closed. */
HIO_API void hio_end(HioRing* ring, int64_t dead_rank);
/* Ends it for all processes, because the leader cannot go on: all of them get HIO_LEADER_FAILED. */
HIO_API void hio_fail(HioRing* ring, const char* why);
/* Ends it for this process: its waiters return. */
HIO_API void hio_end_here(HioRing* ring);
/* No other call may be running, or come after it; those with a queue's handle may. */
HIO_API void hio_free(HioRing* ring);
/* Instead of hio_free() in a process that was forked. */
HIO_API void hio_forget(HioRing* ring);

#ifdef __cplusplus
}
#endif

#endif /* HOROVOD_OPT_IO_C_API_H_ */
