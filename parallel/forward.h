// The names of the types that a program uses, for its own headers. Includes nothing, and so nothing of
// libtorch.
#pragma once

namespace hookline {

class Accelerator;
class CommHook;
class Ddp;
class GradBucket;
class Tracker;
class World;
struct HookContext;
struct HookState;
struct RunConfig;

template <class Dataset>
class DataLoader;
template <class Module>
class DistributedModule;
template <class Module>
class FsdpUnit;
template <typename State>
class PerBucket;
template <class Optimizer>
class PreparedOptimizer;

}  // namespace hookline
