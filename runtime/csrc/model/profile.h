/* profile.h: where the time of forward steps goes. Without it, a lap is one comparison. */
#ifndef ML_PROFILE_H
#define ML_PROFILE_H

#include "../krafla.h"

enum { ML_STAGE_QKV, ML_STAGE_ATTENTION, ML_STAGE_WO, ML_STAGE_FFN, ML_STAGE_CLASSIFIER, ML_STAGE_OTHER };

typedef struct ml_profile {
    bool on;
    double last;
    double seconds[ML_PROFILE_STAGES];
} ml_profile;

/* Seconds of a clock that never goes back. */
double ml_clock(void);

ML_ALWAYS_INLINE void ml_profile_start(ml_profile *profile)
{
    if (profile->on)
        profile->last = ml_clock();
}

/* Counts the time since the last lap for `stage`. */
ML_ALWAYS_INLINE void ml_profile_lap(ml_profile *profile, int stage)
{
    if (profile->on) {
        double now = ml_clock();
        profile->seconds[stage] += now - profile->last;
        profile->last = now;
    }
}

#endif
