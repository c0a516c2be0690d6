import type { BoolFlag, StringFlag } from "./spec.ts";

/** The flags about what daemons serve over HTTP. */
export type ServingFlags = {
  readonly "metrics-addr": StringFlag;
  readonly "metrics-auth": BoolFlag;
  readonly "health-addr": StringFlag;
};

/** Declares {@linkcode ServingFlags} with a daemon's own ports. */
export function servingFlags(
  { metrics, health }: { readonly metrics: string; readonly health: string },
): ServingFlags {
  return {
    "metrics-addr": {
      type: "string",
      default: metrics,
      help: "Listen address for metrics; 0 disables them",
    },
    "metrics-auth": {
      type: "bool",
      default: false,
      help:
        "Serve metrics only to bearer tokens whose user may get the URL /metrics (TokenReview, SubjectAccessReview)",
    },
    "health-addr": {
      type: "string",
      default: health,
      help: "Listen address for /healthz and /readyz; 0 disables them",
    },
  };
}
