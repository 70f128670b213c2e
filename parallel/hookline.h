// Everything that a training program needs.
#pragma once

#include "hooks/per_bucket.h"
#include "hooks/registry/register.h"
#include "parallel/accelerator.h"
#include "parallel/data/data_loader.h"
#include "parallel/forward.h"
#include "parallel/fsdp/fsdp_unit.h"
