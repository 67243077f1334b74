#include "cprofd/host.h"

_Thread_local struct host_reader *host_reader_current;
