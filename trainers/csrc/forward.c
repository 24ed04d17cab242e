#include "forward.h"

static void tower_forward(const hr_tower *tower, const hr_kernels *kernels, const float *params,
                          const float *x, float *hidden, float *out) {
    for (int k = 0; k < tower->layers; k++) {
        const hr_layer *layer = &tower->layer[k];
        float *y = layer->hidden >= 0 ? hidden + (int64_t)layer->hidden * HR_TILE
                                      : out + (int64_t)tower->output * HR_TILE;
        kernels->layer(layer->out, layer->in, layer->activation, params + layer->weight,
                       params + layer->bias, x, y);
        x = y;
    }
}

void hr_forward(const hr_net *net, const hr_kernels *kernels, const float *params, const float *x,
                float *hidden, float *out) {
    for (int k = 0; k < net->towers; k++)
        tower_forward(&net->tower[k], kernels, params, x, hidden, out);
}

void hr_forward_value(const hr_net *net, const hr_kernels *kernels, const float *params,
                      const float *x, float *hidden, float *out) {
    tower_forward(&net->tower[net->towers - 1], kernels, params, x, hidden, out);
}
