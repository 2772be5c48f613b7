// A runtime with faults: the machine's libOpenCL.so.1, of which one function fails when
// it is told to. Functions that are not here are found in the library behind it.
//
//   cc -shared -fPIC -o libfaulty.so faulty.c -Wl,--no-as-needed -l:libOpenCL.so.1
//
// Tests call fault. A command line names what fails in its environment:
//
//   HOTPATH_OPENCL=./libfaulty.so FAULT=clEnqueueNDRangeKernel AFTER=100 CODE=-5 hotpath embed ...
//
// LOCAL is what a device says of its local memory, in bytes. With CARD=1 a CPU says
// that it is a card with memory of its own.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef intptr_t word;

static char name[64];
static int left, times, result; // calls before the first that fails, and how many fail

void fault(const char *function, int after, int how_often, int code) {
  strncpy(name, function, sizeof name - 1);
  left = after, times = how_often, result = code;
}

__attribute__((constructor)) static void from_environment(void) {
  const char *function = getenv("FAULT"), *after = getenv("AFTER"), *often = getenv("TIMES"), *code = getenv("CODE");
  if (function) fault(function, after ? atoi(after) : 0, often ? atoi(often) : 1, code ? atoi(code) : -5);
}

static int fails(const char *function) {
  if (times == 0 || strcmp(name, function) || left-- > 0) return 0;
  times--;
  return result;
}

static void *real(const char *function) { return dlsym(RTLD_NEXT, function); }

// Functions that give a code, and functions that give a handle and a code.
#define CODE(function, parameters, arguments)                 \
  int function parameters {                                   \
    int code = fails(#function);                              \
    return code ? code : ((int(*) parameters)real(#function)) arguments; \
  }
#define HANDLE(function, parameters, arguments)               \
  word function parameters {                                  \
    *code = fails(#function);                                 \
    return *code ? 0 : ((word(*) parameters)real(#function)) arguments; \
  }

CODE(clGetPlatformIDs, (word n, word to, word found), (n, to, found))
CODE(clGetDeviceIDs, (word platform, word type, word n, word to, word found), (platform, type, n, to, found))
HANDLE(clCreateContext, (word properties, word n, word devices, word notify, word data, int *code), (properties, n, devices, notify, data, code))
HANDLE(clCreateCommandQueue, (word context, word device, word properties, int *code), (context, device, properties, code))
HANDLE(clCreateBuffer, (word context, word flags, word size, word host, int *code), (context, flags, size, host, code))
CODE(clBuildProgram, (word program, word n, word devices, word options, word notify, word data), (program, n, devices, options, notify, data))
CODE(clEnqueueWriteBuffer, (word q, word b, word wait, word at, word size, word from, word n, word events, word own), (q, b, wait, at, size, from, n, events, own))
CODE(clEnqueueReadBuffer, (word q, word b, word wait, word at, word size, word to, word n, word events, word own), (q, b, wait, at, size, to, n, events, own))
CODE(clEnqueueNDRangeKernel, (word q, word kernel, word dims, word first, word global, word local, word n, word events, word own), (q, kernel, dims, first, global, local, n, events, own))
CODE(clFlush, (word q), (q))
CODE(clFinish, (word q), (q))
CODE(clWaitForEvents, (word n, word events), (n, events))

int clGetDeviceInfo(word device, word what, word size, void *to, word *written) {
  int code = fails("clGetDeviceInfo");
  if (code) return code;
  code = ((int (*)(word, word, word, void *, word *))real("clGetDeviceInfo"))(device, what, size, to, written);
  const char *local = getenv("LOCAL");
  int card = getenv("CARD") != NULL;
  if (code || !to) return code;
  if (what == 0x1023 && local) *(uint64_t *)to = atoll(local);
  if (what == 0x1000 && card) *(uint64_t *)to = 4; // CL_DEVICE_TYPE_GPU
  if (what == 0x1035 && card) *(uint32_t *)to = 0; // CL_DEVICE_HOST_UNIFIED_MEMORY
  return code;
}
