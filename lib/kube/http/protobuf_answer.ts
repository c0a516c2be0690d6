import { ProtoReader } from "../../bytes/mod.ts";
import type { KubeStatus } from "./errors.ts";

/** "k8s" and a NUL. */
const MAGIC = [0x6b, 0x38, 0x73, 0];

/**
 * The message in an answer of protobuf; undefined when the answer is something else.
 *
 * Source: docs/reference/using-api/api-concepts of Kubernetes, runtime.Unknown of k8s.io/apimachinery.
 * @throws {SyntaxError} when it has no message
 */
export function tryReadEnvelope(body: Uint8Array): ProtoReader | undefined {
  if (!MAGIC.every((byte, i) => body[i] === byte)) return undefined;
  const reader = new ProtoReader(body, MAGIC.length);
  while (reader.next()) {
    if (reader.field !== 2) continue;
    reader.enter();
    return reader;
  }
  throw new SyntaxError("Cannot decode protobuf message: it has none inside");
}

/** The text of a refusal; where it is a `metav1.Status` of protobuf, as JSON. */
export function refusalText(body: Uint8Array): string {
  try {
    const reader = tryReadEnvelope(body);
    if (reader !== undefined) return JSON.stringify(readStatus(reader));
  } catch (err) {
    if (!(err instanceof SyntaxError)) throw err;
    return "";
  }
  return new TextDecoder().decode(body);
}

function readStatus(reader: ProtoReader): KubeStatus & { kind: "Status" } {
  let message = "";
  let reason = "";
  let retryAfterSeconds = 0;
  while (reader.next()) {
    if (reader.field === 3) message = reader.text;
    else if (reader.field === 4) reason = reader.text;
    else if (reader.field === 5) {
      const outer = reader.enter();
      while (reader.next()) {
        if (reader.field === 5) retryAfterSeconds = reader.number;
      }
      reader.leave(outer);
    }
  }
  const details = retryAfterSeconds === 0 ? {} : { retryAfterSeconds };
  return { kind: "Status", message, reason, details };
}
