/// @file
/// HOOKLINE_BUILD_STAMP: what hookline code was built with, as a text that can be compared.
#pragma once

#include <torch/version.h>

/// "torch 2.11.0, hookline 0.1.0". C++ interfaces of both change from version to version: a plug-in and the
/// program that loads it must have been built with the same.
#define HOOKLINE_BUILD_STAMP "torch " TORCH_VERSION ", hookline " HOOKLINE_VERSION
