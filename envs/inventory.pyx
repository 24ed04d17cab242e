"""Inventory: order stock for a shop whose demand is random and whose supplier takes his time.

observation  stock, the goods in the shop, and pipeline, the orders on their way, the next to
             arrive first; both in units of the largest order
action       how much to order, 0 .. ORDER
reward       the day's profit: price for each item sold, minus cost for each one ordered, holding
             for each one left in the evening, and shortage for each one that was asked for in vain
start        random stock up to ORDER and random orders up to half of it
end          truncated after 100 days, never terminated

Each day the order of LEAD days ago arrives, a new one is sent off, and then the customers come:
their number has a Poisson distribution (cut off at ORDER + LIMIT), and who finds nothing does not
come back. What does not fit into the shop, LIMIT items, is lost.
"""

from headrace cimport *

cdef extern from *:
    """
    #ifndef LEAD
    #define LEAD 4 /* days from an order to its arrival, at least 1 */
    #endif
    #define ORDER 20  /* the largest order */
    #define LIMIT 100 /* items that the shop holds */
    """
    enum: LEAD
    enum: ORDER
    enum: LIMIT


cdef struct Params:
    float price     # of an item sold
    float cost      # of an item ordered
    float holding   # of an item in stock for a night
    float shortage  # of a customer who finds nothing
    float demand    # mean number of customers a day, 0 to 20


cdef struct State:
    int32_t stock
    int32_t pipeline[LEAD]  # orders, the next to arrive first
    int32_t wanted          # customers of the last day, for the picture


cdef struct Action:
    int32_t order


cdef struct Obs:
    float stock
    float pipeline[LEAD]


cdef struct Metrics:
    float final_stock


cdef inline int32_t poisson(hr_rng *rng, float mean) noexcept nogil:
    """By inversion: how many of the probabilities, added up, stay below a uniform number."""
    cdef float draw = hr_unit(rng), probability = hr_exp(-mean), below = probability
    cdef int32_t count = 0
    while draw >= below and count < ORDER + LIMIT:
        count += 1
        probability *= mean / <float>count
        below += probability
    return count


cdef void inventory_reset(const Params *p, State *s, hr_rng *rng) noexcept nogil:
    cdef int32_t k
    s.stock = hr_randint(rng, ORDER + 1)
    for k in range(LEAD):
        s.pipeline[k] = hr_randint(rng, ORDER // 2 + 1)


cdef void inventory_step(const Params *p, State *s, const Action *a, hr_outcome *out,
                         hr_rng *rng) noexcept nogil:
    cdef int32_t k, sold, wanted = poisson(rng, p.demand)
    s.stock = min(s.stock + s.pipeline[0], <int32_t>LIMIT)
    for k in range(LEAD - 1):
        s.pipeline[k] = s.pipeline[k + 1]
    s.pipeline[LEAD - 1] = a.order
    sold = min(s.stock, wanted)
    s.stock -= sold
    s.wanted = wanted
    out.reward = (p.price * <float>sold - p.cost * <float>a.order
                  - p.holding * <float>s.stock - p.shortage * <float>(wanted - sold))


cdef void inventory_observe(const Params *p, const State *s, Obs *o) noexcept nogil:
    cdef int32_t k
    o.stock = <float>s.stock / <float>ORDER
    for k in range(LEAD):
        o.pipeline[k] = <float>s.pipeline[k] / <float>ORDER


cdef void inventory_metrics(const Params *p, const State *s, Metrics *m) noexcept nogil:
    m.final_stock = <float>s.stock


cdef void inventory_draw(const Params *p, const State *s, hr_frame *frame) noexcept nogil:
    cdef float width = <float>frame.width, height = <float>frame.height
    cdef float slot = width / <float>(LEAD + 3), ground = 0.85 * height
    cdef float item = 0.75 * height / <float>LIMIT, small = 0.5 * height / <float>ORDER, x
    cdef int32_t k
    hr_fill(frame, hr_rgb(28, 31, 38))
    hr_rect(frame, 0, ground, width, 2, hr_rgb(120, 126, 140))
    hr_rect(frame, 0.2 * slot, ground - item * <float>s.stock, 0.9 * slot, item * <float>s.stock,
            hr_rgb(86, 182, 194))
    hr_text(frame, 0.2 * slot, ground + 10, 2, hr_rgb(220, 223, 228), "stock")
    for k in range(LEAD):
        x = (<float>k + 1.5) * slot
        hr_rect(frame, x, ground - small * <float>s.pipeline[k], 0.7 * slot,
                small * <float>s.pipeline[k], hr_rgb(152, 195, 121))
    hr_text(frame, 1.5 * slot, ground + 10, 2, hr_rgb(220, 223, 228), "on order")
    x = (<float>LEAD + 1.8) * slot
    hr_rect(frame, x, ground - small * <float>s.wanted, 0.9 * slot, small * <float>s.wanted,
            hr_rgb(224, 108, 117))
    hr_text(frame, x, ground + 10, 2, hr_rgb(220, 223, 228), "demand")


cdef extern from *:
    """
    HR_ENV(inventory,
           HR_OBS(HR_FIELD(Obs, stock, 0, (double)LIMIT / ORDER), HR_FIELD(Obs, pipeline, 0, 1)),
           HR_ACTION(HR_DISCRETE(Action, order, ORDER + 1)),
           HR_PARAMS(HR_PARAM(price, 0.2f), HR_PARAM(cost, 0.1f), HR_PARAM(holding, 0.004f),
                     HR_PARAM(shortage, 0.04f), HR_PARAM(demand, 5.0f)),
           .max_steps = 100, .metrics = inventory_metrics, HR_METRICS(final_stock),
           .draw = inventory_draw)
    """
