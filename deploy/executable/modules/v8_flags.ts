/**
 * V8's flags for everything that is not a call of the CNI plugin, as an option of
 * deno. The daemons wait for the kernel and the network; without optimised code
 * and helper threads they are as fast and take 25 to 40 MiB less. The space for
 * new objects, which V8 lets grow to 16 MiB twice, stays small, so that
 * many requests at once do not leave tens of MiB of garbage behind.
 */
export const DAEMON_V8_FLAGS: string =
  "--v8-flags=--lite-mode,--single-threaded,--max-semi-space-size=2";

/**
 * V8's flags for `coil ipam`, which may read all pods of a large cluster: optimised code takes less than half of the
 * processor's time. The second optimising compiler, and a heap that grows as V8 likes, would take 80 MiB for nothing.
 */
export const READER_V8_FLAGS: string =
  "--v8-flags=--single-threaded,--no-turbofan,--max-semi-space-size=2,--heap-growing-percent=30";
