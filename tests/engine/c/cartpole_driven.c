#include "../../../envs/cartpole.c"
/* after HR_ENV */
#include "driver.h"
