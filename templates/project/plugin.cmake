
# The same hook for any other program: [ddp] plugins = ["build/libmean_after.so"]
add_library(mean_after MODULE mean_after.cpp)
target_link_libraries(mean_after PRIVATE hookline::plugin)
