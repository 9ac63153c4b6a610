"""The C interface of libhorovod_opt_io.so: one table, from which both sides have it.

    python -m horovod_opt.io.native_table > horovod_opt_io_abi.h
"""

from __future__ import annotations

from horovod_opt.native import c_interface
from horovod_opt.native.c_interface import Constant, Function, Struct, fields, structure


class Code(Constant):
    """What functions that return int return. Those that return a pointer return NULL on failure,
    and hio_error() then says what was wrong."""

    OK = 0
    TIMEOUT = 1, "not all yet: call again"
    OVER = 2, "the step, or the load, is over"
    CLOSED = 3, "the reader has closed the cache, or this process has"
    READER_DIED = 4
    RANK_DIED = 5, "hio_cache_dead_rank()"
    TOO_FAR = 6, "too many steps after one that is not done"
    READER_FAILED = 7, "it cannot go on; hio_error() says why"
    OTHER = 8, "the load brings another chunk than the caller expects"
    FAILED = -1, "hio_error()"


class RecordStatus(Constant):
    """What became of a record on its way from storage; above 0: the errno of reading it."""

    GOOD = 0
    CHECKSUM = -1, "its bytes are others than those that were indexed"
    TRUNCATED = -2, "its file ends before it does"
    CHANGED = -3, "its file has another size or time of change than when it was indexed"


class QueueEvent(Constant):
    """What hio_queue_wait() hears of."""

    ROOM = 0, "for steps"
    QUESTION = 1, "hio_queue_question()"
    STOP = 2


class MemoryEvent(Constant):
    """What hio_memory_wait() hears of."""

    STOPPED = 0
    WANTED = 1, "the chunk is to be read: hio_memory_fill() or hio_memory_refuse()"
    LOST = 2, "the node does not answer any more"
    NO_ROOM = 3, "a chunk could not be written"


class Count(Constant):
    INFOS = 6, "whole numbers that a batch says of itself"


Order = structure(Struct(
    "HioOrder",
    (*fields("int64_t", "chunks", "chunk_samples", "short_ordinal", "missing", "shards", "stages",
             "window", "is_shuffled", "is_dealt"),
     "uint64_t chunk_key[2]", "uint64_t window_key[2]", "uint64_t deal_key[2]",
     *fields("const int64_t*", "shard_chunk", "shard_place", "first_window", "stage_start",
             "stage_row", "stage_width", "stage_ordinal")),
    """The order of an epoch, as horovod_opt/io/order/step_order.py fills it in: of chunks, their
    number, samples, the ordinal of the short one and what it lacks; of each shard, its first chunk
    (by ordinal), its first place and the chunks of its first window (shard_chunk has one element
    more); of each stage of the round robin, its first position and row, its width, and the ordinal
    of each shard in it, -1 for one that has ended (stage_start has one element more)."""))
Loads = structure(Struct(
    "HioLoads",
    (*fields("int64_t", "count", "number", "are_again", "are_parcels"),
     *fields("const int64_t*", "first", "last", "bytes", "chunks", "extents"),
     "const int32_t* files", *fields("const int64_t*", "offsets", "lengths", "places"),
     "const uint8_t* are_whole", *fields("const int64_t*", "records", "record_places",
                                        "record_sizes"),
     "const uint32_t* checksums", *fields("const int64_t*", "origin_chunks", "origin_places")),
    """Steps first[i] to last[i] need load number + i, of bytes[i], which is chunks[i] (NULL: nobody
    compares it), made of the extents from extents[i] to extents[i + 1]: bytes of a file from an
    offset, and their place in the chunk buffer. `number` -1: that after the last one. `are_again`:
    the job has read them before. For the job's memory: whether the extents are all of the chunk
    (NULL: nobody asks), and the records from records[i] to records[i + 1], with their CRC-32C
    (records NULL: none are compared). `are_parcels`: extents are records; of which chunk each
    is, and from which place in its chunk buffer on."""))
Records = structure(Struct(
    "HioRecords",
    ("int64_t count", *fields("const int64_t*", "loads", "places", "sizes"),
     "const uint32_t* checksums", "const int32_t* files", "const int64_t* offsets",
     "void* out", "const int64_t* out_places", "int32_t* statuses", "int64_t origin",
     "const int64_t* chunks"),
    """Which load brings each of `count` records, its place in the load's chunk buffer, its bytes,
    its CRC-32C (NULL: not compared), and its place in a file, for what is in the page cache. It
    comes to out + out_places[] - origin, whatever its status is, which is written: `origin` is the
    place that `out` begins with. `out` is NULL: places are addresses. `chunks`: of which the
    records are, HIO_OTHER where the load brings another one; NULL: not compared."""))
Progress = structure(Struct(
    "HioProgress", fields("int64_t", "steps", "records", "bad"),
    "Steps and records that were taken, and how many of these are not good."))
ReaderCounters = structure(Struct(
    "HioReaderCounters",
    fields("int64_t", "bytes_read", "requests", "loads", "skipped_loads", "live_bytes",
           "most_live_bytes", "most_used_bytes", "cached_bytes", "again_bytes"),
    """Loads are skipped when nobody needs them any longer; cached bytes were left in the page
    cache; again bytes were read though the job had read them before."""))
RankCounters = structure(Struct(
    "HioRankCounters", fields("int64_t", "waits", "wait_ns", "records", "bytes", "cached"),
    "Of a rank and its workers; `cached`: records of the page cache."))
MemoryNotice = structure(Struct(
    "HioMemoryNotice", (*fields("int64_t", "kind", "number"), "const char* why"),
    """Of a chunk or a node; `why` is good until this thread's next call of hio_memory_wait()."""))
MemoryCounters = structure(Struct(
    "HioMemoryCounters",
    fields("int64_t", "kept_bytes", "peer_bytes", "peer_requests", "served_bytes",
           "fallback_bytes", "bytes_read", "requests"),
    """What is kept now; what came from other nodes, in so many requests, and went to them; what
    came from storage though some node was to keep it; and what was read from storage to be kept,
    other than through a node cache."""))
Python = structure(Struct(
    "HioPython",
    ("void* (*new_list)(int64_t items)",  # PyList_New
     "int (*set_item)(void* list, int64_t i, void* item)",  # PyList_SetItem
     "void* (*new_bytes)(const char* data, int64_t bytes)",  # PyBytes_FromStringAndSize
     "char* (*data_of)(void* bytes)",  # PyBytes_AsString
     "void (*release)(void* object)"),  # Py_DecRef
    "What is needed of Python's C API."))
Question = structure(Struct(
    "HioQuestion",
    (*fields("int64_t", "number", "step", "code", "records"), "const int32_t* statuses",
     "const char* text"),
    """Of the step that is number `step` of those added. HIO_OK: there are statuses, all that are
    not 0 are bad. Pointers are good until the next call of hio_queue_question()."""))
Step = structure(Struct(
    "HioStep",
    (*fields("int64_t", "samples", "parts"), *fields("const int64_t*", "sizes", "labels", "infos"),
     "float weight"),
    """sizes[samples * parts]; labels may be NULL; infos[HIO_INFOS]. Good until it is handed out."""
))
Answer = structure(Struct(
    "HioAnswer",
    ("const char* error", "int is_input", "const uint8_t* is_good", "int64_t size", "float weight"),
    """error is NULL: go on with the good samples. Good until the next call of hio_queue_ask()."""))

STRUCTS = {struct.__name__: struct for struct in (
    Order, Loads, Records, Progress, ReaderCounters, RankCounters, MemoryNotice, MemoryCounters,
    Python, Question, Step, Answer)}
HANDLES = ("HioNodeCache", "HioQueue", "HioJobMemory")  # what they are is C++'s
HASH_FUNCTION = "hio_abi"

_STEPS = "const HioOrder* order, int64_t begin, int64_t positions, int64_t steps, "
_SELECTION = _STEPS + "int64_t first, int64_t end, "

GENERAL = (
    Function("const char*", HASH_FUNCTION, doc="HOROVOD_OPT_IO_ABI, as it was compiled."),
    Function("const char*", "hio_error", doc="Of the last call of this thread that failed."),
    Function("uint32_t", "hio_crc32c", "uint32_t crc, const void* data, int64_t bytes",
             "CRC-32C of `bytes` bytes that follow those that `crc` is of."),
    Function("void*", "hio_byte_lists",
             "const HioPython* python, int64_t lists, const int64_t* ends, const int64_t* sizes, "
             "int64_t* places",
             """A list of lists, the i-th of which has bytes objects of the sizes before ends[i];
             where the bytes of each go comes to `places`. NULL, with Python's exception set, if
             there is no memory. The caller holds Python's lock; nobody else has the objects, so
             that they may still be written."""),
)
ORDER = (
    Function("int", "hio_permute",
             "int64_t count, const uint64_t* numbers, int64_t ns, const uint64_t* n, int64_t keys, "
             "const uint64_t* first, const uint64_t* step, int forward, uint64_t* out",
             """Keyed permutations of range(n), see order/permutation.h: out[i] is where numbers[i]
             goes, or what goes to it if `forward` is 0. `n` and the two parts of the key have one
             element, or one for each number. HIO_FAILED, and `out` is undefined: n is not 1 to
             2^62, or a number is not below it."""),
    Function("int", "hio_order_take",
             _STEPS + "int64_t runs, const int64_t* firsts, const int64_t* ends, int64_t ranks, "
             "int64_t index, int64_t* taken_positions, int64_t* samples",
             """Of `steps` steps of so many positions from `begin` on: what rank `index` of `ranks`
             is dealt of these runs of each step's samples, which are sorted by place; see
             order/dealing.h."""),
    Function("int", "hio_order_mark",
             _SELECTION + "int64_t number, int64_t* firsts, int64_t* lasts, int64_t* counts",
             """Of the samples from number `first` to `end` - 1 of each step, sorted by place: the
             first and last steps, which count from `number` on, that need the chunk of each
             ordinal; and how many of the samples of each window they take."""),
    Function("int", "hio_order_find",
             _SELECTION
             + "int64_t windows, const int64_t* ordinals, const int64_t* begins, uint8_t* mask",
             "Which of the samples of these windows they take."),
)
NODE_CACHE = (
    Function("HioNodeCache*", "hio_cache_create",
             "int64_t ranks, int64_t buffers, int64_t buffer_bytes, int64_t memory, int64_t start",
             "A new one, of the reader: steps begin with `start`."),
    Function("int", "hio_cache_file", "const HioNodeCache* cache",
             "The descriptor to hand over; it stays the cache's."),
    Function("HioNodeCache*", "hio_cache_attach", "int file",
             "The one that was handed over; takes `file` in any case."),
    Function("int", "hio_cache_watch", "HioNodeCache* cache, int socket",
             """Wakes this process's waiters when the other end of the socket is gone. The socket
             stays open until hio_cache_free()."""),
    Function("int", "hio_cache_set_files",
             "HioNodeCache* cache, const char* root, int64_t files, const void* names, "
             "const int64_t* ends, const int64_t* bytes, const int64_t* mtime_ns",
             """The data set's files, before anything is read. `names` are one after the other, each
             ends before ends[i]; the arrays must stay until hio_cache_free()."""),
    Function("int", "hio_cache_start",
             "HioNodeCache* cache, int threads, int leave_cached, HioJobMemory* memory",
             """Starts the reader's threads. `leave_cached`: what is in the page cache is not read
             into the node's cache; ranks then find it there. `memory`: where chunks are kept, NULL
             for nowhere."""),
    Function("int", "hio_cache_announce",
             "HioNodeCache* cache, int64_t loads, const int64_t* first, const int64_t* last, "
             "const int64_t* bytes",
             """Whether these loads can come next, before their extents are known; HIO_FAILED: the
             memory is too small, or their order is wrong, and none of them counts."""),
    Function("int", "hio_cache_add_loads", "HioNodeCache* cache, const HioLoads* loads",
             "The next loads. Waits while many are not begun."),
    Function("int", "hio_cache_gather",
             "HioNodeCache* cache, int64_t rank, int64_t step, const HioRecords* records, "
             "int64_t* begin, int64_t milliseconds",
             """Copies records from number *begin on, see node_cache/gather.h. HIO_TIMEOUT: records
             from *begin on were not there within `milliseconds`."""),
    Function("int", "hio_cache_take",
             "HioNodeCache* cache, int64_t rank, int64_t first, int64_t steps, "
             "const int64_t* ends, const HioRecords* records, HioProgress* progress, "
             "int64_t milliseconds",
             """Takes whole steps, from progress->steps to `steps` - 1, and is done with each: step
             i is `first` + i in the cache, and its records end before ends[i] (`count` does not
             count). Waits for the first one, as hio_cache_gather(); each of those behind it is
             taken if all of it is there already. HIO_TIMEOUT: the first step was not there within
             `milliseconds`; call it again, with the same `out`."""),
    Function("int", "hio_cache_done", "HioNodeCache* cache, int64_t rank, int64_t step",
             "The rank needs nothing more of the step. HIO_TOO_FAR, and nothing has changed."),
    Function("void", "hio_cache_skip_to", "HioNodeCache* cache, int64_t rank, int64_t step",
             "Nor of the steps before this one."),
    Function("void", "hio_cache_leave", "HioNodeCache* cache, int64_t rank", "Nor of any."),
    Function("int", "hio_cache_has_left", "const HioNodeCache* cache, int64_t rank"),
    Function("int64_t", "hio_cache_cursor", "const HioNodeCache* cache, int64_t rank",
             "The first step that the rank has not done."),
    Function("void", "hio_cache_reader_counters",
             "const HioNodeCache* cache, HioReaderCounters* counters"),
    Function("void", "hio_cache_rank_counters",
             "const HioNodeCache* cache, int64_t rank, HioRankCounters* counters"),
    Function("int64_t", "hio_cache_dead_rank", "const HioNodeCache* cache"),
    Function("void", "hio_cache_end", "HioNodeCache* cache, int64_t dead_rank",
             """Ends it for all processes, because this rank has died; negative: it is closed."""),
    Function("void", "hio_cache_fail", "HioNodeCache* cache, const char* why",
             """Ends it for all processes, because the reader cannot go on: all of them get
             HIO_READER_FAILED."""),
    Function("void", "hio_cache_end_here", "HioNodeCache* cache",
             "Ends it for this process: its waiters return."),
    Function("void", "hio_cache_free", "HioNodeCache* cache",
             """No other call may be running, or come after it; those with a queue's handle may. Its
             queues are detached from it."""),
    Function("void", "hio_cache_forget", "HioNodeCache* cache",
             "Instead of hio_cache_free() in a process that was forked."),
)
# Steps that somebody takes without Python's lock: see order/step_queue.h. A thread of Python feeds
# a queue, and answers what its taker asks. Both sides have a handle of their own, which may outlive
# the cache.
QUEUE = (
    Function("HioQueue*", "hio_queue_create", "HioNodeCache* cache, int64_t rank",
             "The feeder's handle of a new one, of a rank's steps."),
    Function("HioQueue*", "hio_queue_claim", "int64_t number", "The taker's handle, once."),
    Function("void", "hio_queue_free", "HioQueue* queue",
             "Of either handle; no other call with it may be running, or come after it."),
    Function("int64_t", "hio_queue_number", "const HioQueue* queue"),
    Function("int64_t", "hio_queue_handed_out", "const HioQueue* queue", "Steps."),
    Function("int64_t", "hio_queue_waited", "const HioQueue* queue",
             "Nanoseconds, for the steps that were handed out, by whoever wanted them."),
    Function("void", "hio_queue_stop", "HioQueue* queue",
             "The pass is left: both sides return from their waits."),
    Function("int", "hio_queue_wait", "HioQueue* queue",
             """The feeder sleeps until there is HIO_ROOM for steps, a HIO_QUESTION, or HIO_STOP:
             the pass is left."""),
    Function("int", "hio_queue_add",
             "HioQueue* queue, int64_t cache_step, int64_t steps, int64_t parts, "
             "const int64_t* ends, const HioRecords* records, const int64_t* labels, "
             "const int64_t* infos, const float* weights",
             """Steps that follow each other in the cache from `cache_step` on: step i has the
             samples before ends[i], of `parts` records each; infos[steps * HIO_INFOS]. labels may
             be NULL. Everything is copied; where records go is not looked at."""),
    Function("void", "hio_queue_finish", "HioQueue* queue, int has_failed"),
    Function("void", "hio_queue_question", "HioQueue* queue, HioQuestion* question"),
    Function("void", "hio_queue_go_on",
             "HioQueue* queue, int64_t number, int64_t samples, const uint8_t* is_good, "
             "int64_t size, float weight",
             """The batch goes on with its good samples: is_good[samples], their number, and its
             weight."""),
    Function("void", "hio_queue_refuse",
             "HioQueue* queue, int64_t number, const char* error, int is_input",
             "It is an error; `is_input`: of the caller's."),
    Function("int", "hio_queue_look", "HioQueue* queue, HioStep* step, int64_t milliseconds",
             """The next step. HIO_TIMEOUT; HIO_OVER: there is none; HIO_CLOSED: the pass is left;
             HIO_FAILED: the feeder has, ask it why."""),
    Function("int", "hio_queue_take",
             "HioQueue* queue, const int64_t* places, int64_t* begin, int64_t* bad, "
             "int64_t milliseconds",
             """Its records from *begin on to the addresses in `places`, and the rank is done with
             it. *bad: of all its records, how many are. Returns what hio_cache_gather() does."""),
    Function("int", "hio_queue_ask",
             "HioQueue* queue, int code, const char* text, HioAnswer* answer, int64_t milliseconds",
             """Asks the feeder about `code`, which hio_queue_look() or hio_queue_take() has
             returned, HIO_OK with bad records; `text`: of HIO_FAILED. HIO_TIMEOUT: call it again;
             HIO_CLOSED: the pass is left."""),
    Function("void", "hio_queue_hand_out", "HioQueue* queue, int64_t nanoseconds",
             "It was wanted so long ago."),
)
# Chunks that nodes keep for each other: see kept/job_memory.h.
JOB_MEMORY = (
    Function("HioJobMemory*", "hio_memory_create",
             "int64_t chunks, const int64_t* chunk_bytes, const char* folder, "
             "const void* fingerprint, const char* root, int64_t files, const void* names, "
             "const int64_t* ends, const int64_t* bytes, const int64_t* mtime_ns",
             """This node's part of it; keeps nothing yet. `folder`: where the file without a name
             is; NULL: memory. `fingerprint`: 16 bytes. Files as in hio_cache_set_files()."""),
    Function("int", "hio_memory_serve",
             "HioJobMemory* memory, const char* host, const char* secret",
             "Starts the server at this numeric address; returns its port, or HIO_FAILED."),
    Function("int", "hio_memory_set_homes",
             "HioJobMemory* memory, const int32_t* homes, int self, int64_t nodes, "
             "const char* addresses",
             """Which node keeps each chunk, -1 for none; this one is number `self`. `addresses`: a
             line "host port secret" for each node."""),
    Function("int", "hio_memory_wait", "HioJobMemory* memory, HioMemoryNotice* notice",
             "Sleeps until there is one."),
    Function("int", "hio_memory_fill", "HioJobMemory* memory, const HioLoads* loads",
             "Reads a chunk that is wanted, the only one of `loads`, and keeps it."),
    Function("int", "hio_memory_want_all", "HioJobMemory* memory",
             "What the node is to keep and has not read is wanted, in the order of the data."),
    Function("void", "hio_memory_refuse", "HioJobMemory* memory, int64_t chunk",
             "It is not kept."),
    Function("void", "hio_memory_counters",
             "const HioJobMemory* memory, HioMemoryCounters* counters"),
    Function("void", "hio_memory_stop", "HioJobMemory* memory",
             "Frees what is kept: readers go on with storage, hio_memory_wait() returns."),
    Function("void", "hio_memory_free", "HioJobMemory* memory",
             "No other call may be running, or come after it; node caches may still use it."),
    Function("void", "hio_memory_forget", "HioJobMemory* memory",
             "Instead of hio_memory_free() in a process that was forked."),
    Function("const char*", "hio_own_address", "const char* interfaces",
             """By which other nodes reach this one: of the first of these interfaces, separated by
             commas, or of the only one. NULL on failure; good until this thread's next call."""),
)
FUNCTIONS = (*GENERAL, *ORDER, *NODE_CACHE, *QUEUE, *JOB_MEMORY)


def _declarations() -> str:
    handles = "".join(f"typedef struct {handle} {handle};\n" for handle in HANDLES)
    enums = (c_interface.enum_declaration(constants, "HIO_")
             for constants in (Code, RecordStatus, QueueEvent, MemoryEvent, Count))
    structs = (c_interface.struct_declaration(struct.c_struct) for struct in STRUCTS.values())
    functions = c_interface.for_c_and_cpp(
        "\n".join(map(c_interface.function_declaration, FUNCTIONS)))
    return "\n".join([*enums, handles, *structs, functions])


HASH = c_interface.hash_of(_declarations())


def header() -> str:
    """The text of horovod_opt_io_abi.h, for C and C++."""
    return c_interface.header(
        "horovod_opt_io_abi", _declarations(),
        "Written by `python -m horovod_opt.io.native_table`; edit the table there instead.")


if __name__ == "__main__":
    print(header(), end="")
