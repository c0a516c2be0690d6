import { readText } from "./files.ts";

/** An audit policy (audit.k8s.io/v1), or "metadata": every finished request, without bodies. */
export type AuditPolicy = "metadata" | Record<string, unknown>;

/** A request that the API server has answered, or begun to answer when it is a watch. */
export interface AuditedRequest {
  readonly verb: string;
  readonly user: string;
  readonly userAgent: string;
  readonly uri: string;
  readonly resource: string;
  readonly namespace?: string;
  readonly name?: string;
  readonly subresource?: string;
  readonly stage: string;
  readonly code: number;
  readonly received: Date;
}

/** Text of the policy file. */
export function auditPolicyText(policy: AuditPolicy): string {
  if (policy !== "metadata") return JSON.stringify(policy);
  return JSON.stringify({
    apiVersion: "audit.k8s.io/v1",
    kind: "Policy",
    omitStages: ["RequestReceived"],
    rules: [
      // The API server's own requests to itself.
      { level: "None", users: ["system:apiserver", "system:anonymous"] },
      { level: "Metadata" },
    ],
  });
}

/** Which requests {@link parseAuditLog} keeps. */
export interface AuditFilter {
  /** Received at this time or later. */
  readonly since?: Date;
  readonly user?: string;
  readonly verb?: string;
  readonly resource?: string;
}

interface AuditEvent {
  verb: string;
  stage: string;
  requestURI: string;
  userAgent?: string;
  user?: { username?: string };
  objectRef?: {
    resource?: string;
    namespace?: string;
    name?: string;
    subresource?: string;
  };
  responseStatus?: { code?: number };
  requestReceivedTimestamp: string;
}

/** Takes away the half-written last line of an API server that was killed: the next one would go on in it. */
export async function dropHalfLine(file: string): Promise<void> {
  const text = await readText(file) ?? "";
  const whole = text.slice(0, text.lastIndexOf("\n") + 1);
  if (whole !== text) await Deno.writeTextFile(file, whole);
}

/** Reads an audit log; a half-written last line is left out. A watch appears when it begins and when it ends. */
export function parseAuditLog(
  text: string,
  filter: AuditFilter = {},
): AuditedRequest[] {
  const end = text.lastIndexOf("\n");
  const lines = text.slice(0, end + 1).split("\n").filter((l) => l !== "");
  return lines.map(parseEvent).filter((request) =>
    (filter.since === undefined || request.received >= filter.since) &&
    (filter.user === undefined || request.user === filter.user) &&
    (filter.verb === undefined || request.verb === filter.verb) &&
    (filter.resource === undefined || request.resource === filter.resource)
  );
}

function parseEvent(line: string): AuditedRequest {
  const event = JSON.parse(line) as AuditEvent;
  const { resource, namespace, name, subresource } = event.objectRef ?? {};
  return {
    verb: event.verb,
    user: event.user?.username ?? "",
    userAgent: event.userAgent ?? "",
    uri: event.requestURI,
    resource: resource ?? "",
    ...(namespace === undefined ? {} : { namespace }),
    ...(name === undefined ? {} : { name }),
    ...(subresource === undefined ? {} : { subresource }),
    stage: event.stage,
    code: event.responseStatus?.code ?? 0,
    received: new Date(event.requestReceivedTimestamp),
  };
}
