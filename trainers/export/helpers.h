/* What exported policies are made of. export/c_header.py takes the parts that a policy needs, each
 * after a line "/// name", and puts the policy's name in the place of POLICY. */

/// dense
/* y[out] = weight[out][in] x + bias, then tanh (activation 1) or relu (2). */
static inline void POLICY__dense(int out, int in, const float *weight, const float *bias,
                                 int activation, const float *x, float *y) {
    for (int o = 0; o < out; o++) {
        float sum = bias[o];
        for (int i = 0; i < in; i++) sum += weight[(size_t)o * (size_t)in + (size_t)i] * x[i];
        if (activation == 1) sum = tanhf(sum);
        if (activation == 2) sum = fmaxf(sum, 0.0f);
        y[o] = sum;
    }
}

/// normalise
/* x[n] = (x - mean) * scale within +-bound. */
static inline void POLICY__normalise(int n, const float *mean, const float *scale, float bound,
                                     float *x) {
    for (int k = 0; k < n; k++) x[k] = fminf(fmaxf((x[k] - mean[k]) * scale[k], -bound), bound);
}

/// likeliest
/* The first of the n choices with the greatest logit, of those that the mask allows (NULL: all). */
static inline int POLICY__likeliest(int n, const float *logits, const uint8_t *mask) {
    int best = -1;
    for (int k = 0; k < n; k++)
        if ((mask == NULL || mask[k]) && (best < 0 || logits[k] > logits[best])) best = k;
    return best < 0 ? 0 : best;
}

/// channels_first
/* [pixels][channels] to [channels][pixels]. */
static inline void POLICY__channels_first(int pixels, int channels, const float *x, float *y) {
    for (int p = 0; p < pixels; p++)
        for (int c = 0; c < channels; c++) y[c * pixels + p] = x[p * channels + c];
}

/// conv
/* relu(x[in][height][width] * weight[out][in][kernel][kernel] + bias), without padding. */
static inline void POLICY__conv(int out, int in, int height, int width, int kernel, int stride,
                                const float *weight, const float *bias, const float *x, float *y) {
    const int rows = (height - kernel) / stride + 1, columns = (width - kernel) / stride + 1;
    for (int o = 0; o < out; o++)
        for (int r = 0; r < rows; r++)
            for (int c = 0; c < columns; c++) {
                float sum = bias[o];
                for (int i = 0; i < in; i++)
                    for (int a = 0; a < kernel; a++) {
                        const float *w = weight + ((o * in + i) * kernel + a) * kernel;
                        const float *line = x + (i * height + r * stride + a) * width + c * stride;
                        for (int b = 0; b < kernel; b++) sum += w[b] * line[b];
                    }
                y[(o * rows + r) * columns + c] = fmaxf(sum, 0.0f);
            }
}

/// sigmoid
static inline float POLICY__sigmoid(float x) { return 1.0f / (1.0f + expf(-x)); }

/// mingru
/* A step of a MinGRU (Feng et al. 2024): given[2][n]: gate, new. */
static inline void POLICY__mingru(int n, const float *given, float *state, float *y) {
    for (int k = 0; k < n; k++) {
        const float gate = POLICY__sigmoid(given[k]), seen = given[n + k];
        const float fresh = seen >= 0.0f ? seen + 0.5f : POLICY__sigmoid(seen);
        y[k] = state[k] + gate * (fresh - state[k]);
    }
    for (int k = 0; k < n; k++) state[k] = y[k];
}

/// recalled
/* One row of a product with the state. */
static inline float POLICY__recalled(int n, int row, const float *weight, const float *bias,
                                     const float *state) {
    float sum = bias == NULL ? 0.0f : bias[row];
    for (int i = 0; i < n; i++) sum += weight[row * n + i] * state[i];
    return sum;
}

/// gru
/* A step of a GRU (Cho et al. 2014): given[3][n] and weight[3][n][n]: reset, update, new. */
static inline void POLICY__gru(int n, const float *weight, const float *bias, const float *given,
                               float *state, float *y) {
    for (int k = 0; k < n; k++) {
        const float reset = POLICY__sigmoid(given[k] + POLICY__recalled(n, k, weight, bias, state));
        const float keep =
            POLICY__sigmoid(given[n + k] + POLICY__recalled(n, n + k, weight, bias, state));
        const float own = POLICY__recalled(n, 2 * n + k, weight, bias, state);
        const float fresh = tanhf(given[2 * n + k] + reset * own);
        y[k] = keep * state[k] + (1.0f - keep) * fresh;
    }
    for (int k = 0; k < n; k++) state[k] = y[k];
}

/// lstm
/* A step of an LSTM (Hochreiter and Schmidhuber 1997): given[4][n] and weight[4][n][n]: input,
 * forget, new, output. state: output, then cell. */
static inline void POLICY__lstm(int n, const float *weight, const float *bias, const float *given,
                                float *state, float *y) {
    for (int k = 0; k < n; k++) {
        float gate[4];
        for (int g = 0; g < 4; g++)
            gate[g] = given[g * n + k] + POLICY__recalled(n, g * n + k, weight, bias, state);
        const float kept = POLICY__sigmoid(gate[1]) * state[n + k];
        state[n + k] = kept + POLICY__sigmoid(gate[0]) * tanhf(gate[2]);
        y[k] = POLICY__sigmoid(gate[3]) * tanhf(state[n + k]);
    }
    for (int k = 0; k < n; k++) state[k] = y[k];
}
