/* Numbers of the device that other parts need. */
#ifndef EMU_DRV_DEVICE_H
#define EMU_DRV_DEVICE_H

#include <stddef.h>

/* The machine's memory. */
size_t drv_total_memory(void);

#endif
