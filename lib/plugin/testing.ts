import type { CniRequest } from "./request.ts";

/** A request for a pod of namespace `apps`. */
export function requestOf(pod: string): CniRequest {
  return {
    containerId: `c-${pod}`,
    netns: "/netns",
    ifname: "eth0",
    args: { K8S_POD_NAMESPACE: "apps", K8S_POD_NAME: pod },
    path: "",
    stdinData: new Uint8Array(),
    ips: [],
    interfaces: {},
    validAttachments: [],
  };
}
