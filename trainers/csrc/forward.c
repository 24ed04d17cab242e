#include "forward.h"

#include <stddef.h>

/* The first `layers` layers. */
static void tower_forward(const hr_tower *tower, int layers, const hr_kernels *kernels,
                          const float *params, const float *x, const hr_memory *memory,
                          float *hidden, float *out) {
    for (int k = 0; k < layers; k++) {
        const hr_layer *layer = &tower->layer[k];
        float *y = layer->hidden >= 0 ? hidden + (int64_t)layer->hidden * HR_TILE
                                      : out + (int64_t)tower->output * HR_TILE;
        kernels->layer(layer->out, layer->in, layer->activation, params + layer->weight,
                       params + layer->bias, x, y);
        x = y;
        if (layer->activation == HR_MINGRU) {
            float *after = memory->after ? memory->after : y + (int64_t)layer->out * HR_TILE;
            kernels->mingru(layer->out / 2, memory->before, memory->began, memory->live, y, after);
            x = after;
        }
    }
}

void hr_forward(const hr_net *net, const hr_kernels *kernels, const float *params, const float *x,
                const hr_memory *memory, float *hidden, float *out) {
    for (int k = 0; k < net->towers; k++)
        tower_forward(&net->tower[k], net->tower[k].layers, kernels, params, x, memory, hidden,
                      out);
}

void hr_forward_value(const hr_net *net, const hr_kernels *kernels, const float *params,
                      const float *x, const hr_memory *memory, float *hidden, float *out) {
    const hr_tower *tower = &net->tower[net->towers - 1];
    tower_forward(tower, tower->layers, kernels, params, x, memory, hidden, out);
}

void hr_forward_memory(const hr_net *net, const hr_kernels *kernels, const float *params,
                       const float *x, const hr_memory *memory, float *hidden) {
    tower_forward(&net->tower[0], net->tower[0].layers - 1, kernels, params, x, memory, hidden,
                  NULL);
}
