/* A policy applied to one tile, out of the kernels of its layers. */
#ifndef HEADRACE_FORWARD_H
#define HEADRACE_FORWARD_H

#include "kernels.h"

/* What the policy remembers of the tile's rows, around one step; see hr_kernels.mingru. */
typedef struct hr_memory {
    const float *before; /* [state][64] */
    const float *began;  /* [64] or NULL */
    const float *live;   /* [64] or NULL */
    float *after;        /* [state][64], may be before; NULL: among the hidden features */
} hr_memory;

/* out[outputs][64] from x[features][64]; hidden[net->hidden][64] keeps the activations. memory:
 * NULL where the policy remembers nothing. */
void hr_forward(const hr_net *net, const hr_kernels *kernels, const float *params, const float *x,
                const hr_memory *memory, float *hidden, float *out);
/* Only the tower that ends in the value: out's last row. */
void hr_forward_value(const hr_net *net, const hr_kernels *kernels, const float *params,
                      const float *x, const hr_memory *memory, float *hidden, float *out);
/* Only what is remembered. */
void hr_forward_memory(const hr_net *net, const hr_kernels *kernels, const float *params,
                       const float *x, const hr_memory *memory, float *hidden);

#endif /* HEADRACE_FORWARD_H */
