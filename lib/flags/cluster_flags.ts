import type { FlagValues, StringFlag } from "./spec.ts";

/** The flags that say which cluster an admin's command works with. */
export const CLUSTER_FLAGS: {
  readonly "kubeconfig": StringFlag;
  readonly "context": StringFlag;
} = {
  "kubeconfig": {
    type: "string",
    help: "Kubeconfig file, instead of $KUBECONFIG and ~/.kube/config",
  },
  "context": { type: "string", help: "Context of the kubeconfig" },
};

/** The values of {@linkcode CLUSTER_FLAGS}; empty when they are not given. */
export type ClusterValues = FlagValues<typeof CLUSTER_FLAGS>;
