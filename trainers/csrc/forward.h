/* A policy applied to one tile, out of the kernels of its layers. */
#ifndef HEADRACE_FORWARD_H
#define HEADRACE_FORWARD_H

#include "kernels.h"

/* out[outputs][64] from x[features][64]; hidden[net->hidden][64] keeps the activations. */
void hr_forward(const hr_net *net, const hr_kernels *kernels, const float *params, const float *x,
                float *hidden, float *out);
/* Only the tower that ends in the value: out's last row. */
void hr_forward_value(const hr_net *net, const hr_kernels *kernels, const float *params,
                      const float *x, float *hidden, float *out);

#endif /* HEADRACE_FORWARD_H */
