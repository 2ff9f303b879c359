/* Conventions of lse: smla.h's values again, because a template includes no public header; the runtime checks that they
 * agree. */
#ifndef SMLA_LSE_FLAGS_H
#define SMLA_LSE_FLAGS_H

#define SMLA_PARAM_LSE_BASE_2 1u
#define SMLA_PARAM_LSE_WITH_SINK 2u
#define SMLA_PARAM_LSE_EMPTY_NEGATIVE 4u

#endif
