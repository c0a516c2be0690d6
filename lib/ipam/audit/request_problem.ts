import {
  type BlockRequest,
  blockRequestResult,
  formatAge,
} from "../../api/mod.ts";
import type { Problem } from "./problem.ts";

/** Requests are answered within seconds. */
const PATIENCE_MS = 60_000;

/** Says that a request was refused, or has waited for long; nothing otherwise. */
export function requestProblem(request: BlockRequest, now: Date): Problem[] {
  const { metadata, spec } = request;
  const result = blockRequestResult(request);
  const what =
    `Node ${spec.nodeName} asks for a block of AddressPool ${spec.poolName}`;
  const object = `BlockRequest ${metadata.name ?? ""}`;
  const next = `coil ipam show blocks --pool=${spec.poolName}`;
  if (result.state === "failed") {
    return [{ object, message: `${what}: ${result.message}`, next }];
  }
  const created = metadata.creationTimestamp;
  const ageMs = now.getTime() - Date.parse(String(created ?? ""));
  if (result.state === "complete" || !(ageMs > PATIENCE_MS)) return [];
  const message = `${what}, without an answer for ${
    formatAge(String(created), now)
  }`;
  return [{
    object,
    message,
    next: "kubectl -n kube-system logs deploy/coil-controller",
  }];
}
