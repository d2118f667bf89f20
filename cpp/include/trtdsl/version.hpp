// The version of this library, that of the Python package it belongs to.
#pragma once

#define TRTDSL_VERSION_MAJOR 0
#define TRTDSL_VERSION_MINOR 1
#define TRTDSL_VERSION_PATCH 0
#define TRTDSL_VERSION_STRING "0.1.0"

// To compare: #if TRTDSL_VERSION >= TRTDSL_MAKE_VERSION(0, 2, 0)
#define TRTDSL_MAKE_VERSION(major, minor, patch) ((major) * 10000 + (minor) * 100 + (patch))
#define TRTDSL_VERSION TRTDSL_MAKE_VERSION(TRTDSL_VERSION_MAJOR, TRTDSL_VERSION_MINOR, TRTDSL_VERSION_PATCH)
