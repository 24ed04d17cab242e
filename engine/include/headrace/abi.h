/* The kernel ABI: what every compiled environment exports, whatever its language.
 *
 * C (through HR_ENV in headrace.h), Cython and Numba environments all end in one
 * `hr_env`: a description of their data and *range kernels*, C functions over the
 * worlds [lo, hi). Executors, snapshots, checks and fused collection are written once,
 * against this file.
 *
 * Vocabulary. A *world* is one instance of the environment. It has `agents` rows; world
 * w owns rows [w*agents, (w+1)*agents). Per-world arrays have `worlds` entries, per-row
 * arrays `worlds*agents`. All arrays are indexed from the start of the whole batch.
 */
#ifndef HEADRACE_ABI_H
#define HEADRACE_ABI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HR_ABI_VERSION 2u
#define HR_BLOCK       64 /* worlds in one block: callers cut ranges at multiples of it */
#define HR_MAX_RANK    4  /* dimensions of one field */

/* What one step did to one agent; zeroed by the engine before each step. */
typedef struct hr_outcome {
    float reward;    /* reward of this step */
    bool terminated; /* the episode reached an end of its own */
    bool truncated;  /* the episode was cut; the engine adds its time limit to this */
} hr_outcome;

/* Counter-based random stream of one world (Threefry-2x32-20): plain data. */
typedef struct hr_rng {
    uint64_t key;     /* which stream: a bijective mix of the seed */
    uint64_t counter; /* draws taken so far */
} hr_rng;

/* An RGB image, 8 bits a channel, row-major [height][width][3]. */
typedef struct hr_frame {
    uint8_t *pixels; /* caller's memory, height*width*3 bytes */
    int32_t width;   /* pixels */
    int32_t height;  /* pixels */
} hr_frame;

typedef enum hr_dtype {
    HR_FLOAT32,
    HR_UINT8,
    HR_INT8,
    HR_INT16,
    HR_INT32,
    HR_FLOAT64,
    HR_INT64
} hr_dtype;
typedef enum hr_kind { HR_KIND_BOX, HR_KIND_DISCRETE } hr_kind;

/* One member of Obs or Action. Observation dtypes: float32, uint8, int8/16/32.
 * Action members: float32 (box) or int32 (discrete). */
typedef struct hr_field {
    const char *name;
    int32_t kind;               /* hr_kind */
    int32_t dtype;              /* hr_dtype */
    int32_t offset;             /* bytes from the start of the struct */
    int32_t rank;               /* 0 for a scalar */
    int32_t shape[HR_MAX_RANK]; /* dimensions, C order */
    double low, high;           /* inclusive bounds of every element (box) */
    int32_t choices;            /* values 0 .. choices-1 (discrete) */
    int32_t reserved;
} hr_field;

/* One member of Params. A scalar lies in the struct; an array is a pointer member plus an
 * int32_t member that holds its length (both set by the engine, which owns the copy). */
typedef struct hr_param {
    const char *name;
    int32_t dtype;         /* hr_dtype of the scalar, or of the array's elements */
    int32_t offset;        /* bytes: the scalar, or the pointer */
    int32_t length_offset; /* bytes: the int32_t length of an array; -1 for a scalar */
    int32_t reserved;
    double initial; /* default of a scalar; arrays have none and must be given */
} hr_param;

/* First HR_CHECK that failed in a checked build; `message` is NULL when none did. */
typedef struct hr_failure {
    const char *message; /* the author's words */
    const char *file;    /* the author's file */
    int32_t line;        /* 1-based */
    int32_t reserved;
    int64_t world; /* which world was being stepped, -1 outside one */
} hr_failure;

/* Everything a range kernel may touch. Only slots of the worlds in its range are written. */
typedef struct hr_batch {
    const void *params;    /* Params, one for all worlds, or one per world */
    int64_t params_stride; /* bytes from one world's Params to the next; 0: shared by all */
    void *state;           /* [worlds] State */
    hr_rng *rng;           /* [worlds] */
    const void *actions;   /* [rows] Action, already validated */
    float *rewards;        /* [rows], written by step */
    uint8_t *terminated;   /* [rows] 0 or 1, written by step */
    uint8_t *truncated;    /* [rows] 0 or 1, written by step (the author's own truncation only) */
    void *obs;             /* [rows] Obs, written by observe */
} hr_batch;

typedef void (*hr_range_fn)(const hr_batch *batch, int64_t lo, int64_t hi);

/* The description of an environment. Exported through
 *     const hr_env *headrace_env(void);
 * All pointers have static lifetime in the loaded library. */
typedef struct hr_env {
    uint32_t abi_version; /* HR_ABI_VERSION */
    int32_t agents;       /* rows per world, >= 1 */
    const char *name;
    const char *source_hash; /* hex digest given by the build, "" when none */
    int32_t max_steps;       /* time limit in steps; 0: none */
    int32_t state_size;      /* sizeof(State), bytes; likewise below */
    int32_t params_size;
    int32_t action_size;
    int32_t obs_size;
    int32_t mask_size;    /* bytes of one row's action mask: the sum of its choices; 0: no mask */
    int32_t metrics_size; /* floats that `metrics` writes; 0: none */
    int32_t obs_fields_count, action_fields_count, params_count;
    const hr_field *obs_fields;
    const hr_field *action_fields;
    const hr_param *param_list;
    const char *const *metric_names; /* [metrics_size] */

    /* Steps the worlds of [lo, hi): reads actions, updates state and rng, writes rewards,
     * terminated and truncated. Does not observe and does not reset. */
    hr_range_fn step;
    /* Writes the observation of each row of [lo, hi). */
    hr_range_fn observe;
    /* Starts a new episode in worlds[0 .. count-1], all different. Does not observe. */
    void (*reset)(const hr_batch *batch, const int32_t *worlds, int64_t count);
    /* Optional (NULL when the environment has none): */
    /* present[row] = 1 where the agent takes part (it acts at the next step). */
    void (*present)(const hr_batch *batch, int64_t lo, int64_t hi, uint8_t *present);
    /* mask[row*mask_size + k] = 1 where action k is allowed at the next step. */
    void (*mask)(const hr_batch *batch, int64_t lo, int64_t hi, uint8_t *mask);
    /* out[0 .. metrics_size) for one world, called where its episode ends, before the reset. */
    void (*metrics)(const hr_batch *batch, int64_t world, float *out);
    /* Draws one world into a frame. */
    void (*draw)(const hr_batch *batch, int64_t world, hr_frame *frame);
    /* Where HR_CHECK reports (checked builds), else NULL. */
    hr_failure *failure;
} hr_env;

#endif /* HEADRACE_ABI_H */
