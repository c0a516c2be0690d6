import type { DurationFlag } from "../../flags/mod.ts";

/** The flags about how long a replacement of pods waits. */
export const WAITING_FLAGS: {
  readonly "eviction-timeout": DurationFlag;
  readonly "pod-timeout": DurationFlag;
  readonly "api-timeout": DurationFlag;
} = {
  "eviction-timeout": {
    type: "duration",
    default: 600_000,
    min: 1_000,
    help:
      "How long to wait for a PodDisruptionBudget to allow the eviction of a pod",
  },
  "pod-timeout": {
    type: "duration",
    default: 600_000,
    min: 1_000,
    help:
      "How long to wait for a pod to be gone, and again for its replacement to be ready",
  },
  "api-timeout": {
    type: "duration",
    default: 300_000,
    help: "How long to wait if the API server does not answer",
  },
};
