import { egressAnnotationsOf } from "../../../lib/api/mod.ts";
import {
  Informer,
  type KubeClient,
  NAMESPACES,
  type V1Namespace,
} from "../../../lib/kube/mod.ts";

/** Follows the namespaces whose annotations name Egresses, which their pods use by default. Of others nothing is kept. */
export function defaultEgresses(client: KubeClient): Informer<V1Namespace> {
  return new Informer(client, NAMESPACES, {
    metadataOnly: true,
    keep: ({ metadata }) =>
      Object.keys(egressAnnotationsOf(metadata?.annotations)).length > 0,
    transform: ({ metadata }) => {
      const annotations = egressAnnotationsOf(metadata?.annotations);
      return {
        metadata: {
          name: metadata?.name ?? "",
          annotations,
          // In place of the version, so that no other change counts.
          resourceVersion: JSON.stringify(annotations),
        },
      };
    },
  });
}
