import type { CNIArgs } from "./gen/cni_pb.ts";

/** What the log records of a call say about its request. */
export function requestFields(args: CNIArgs): Record<string, string> {
  return {
    "grpc.request.container_id": args.containerId,
    "grpc.request.ifname": args.ifname,
    "grpc.request.netns": args.netns,
    "grpc.request.pod.name": args.args["K8S_POD_NAME"] ?? "",
    "grpc.request.pod.namespace": args.args["K8S_POD_NAMESPACE"] ?? "",
  };
}
