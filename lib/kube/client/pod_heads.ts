import type { ProtoReader } from "../../bytes/mod.ts";
import type { V1Pod } from "../api/objects.ts";
import type { ListEnvelope, ListFormat } from "../http/options.ts";
import { tryReadEnvelope } from "../http/protobuf_answer.ts";
import { parseList } from "./calls.ts";

/**
 * Pods as protobuf, for who lists those of a large cluster: the API server
 * writes it five times faster than JSON, and only these fields are read:
 * `metadata.{name,namespace,creationTimestamp,deletionTimestamp,annotations}`,
 * `spec.{nodeName,hostNetwork}`, `status.{phase,podIPs,startTime}`.
 *
 * Source: generated.proto of k8s.io/api/core/v1 and k8s.io/apimachinery; the
 * envelope is in docs/reference/using-api/api-concepts of Kubernetes.
 */
export const POD_HEADS: ListFormat<V1Pod> = {
  accept: "application/vnd.kubernetes.protobuf,application/json",
  parse: (body, onItem) => {
    const reader = tryReadEnvelope(body);
    if (reader !== undefined) return readPodList(reader, onItem);
    const { items, ...list } = parseList<V1Pod>(
      new TextDecoder().decode(body),
      "pods",
    );
    items.forEach(onItem);
    return list;
  },
};

type OnPod = (pod: V1Pod) => void;

function readPodList(reader: ProtoReader, onPod: OnPod): ListEnvelope {
  let resourceVersion = "";
  let next = "";
  while (reader.next()) {
    const { field } = reader;
    const outer = reader.enter();
    if (field === 2) onPod(readPod(reader));
    else if (field === 1) {
      while (reader.next()) {
        if (reader.field === 2) resourceVersion = reader.text;
        else if (reader.field === 3) next = reader.text;
      }
    }
    reader.leave(outer);
  }
  return { resourceVersion, ...(next !== "" && { continue: next }) };
}

function readPod(reader: ProtoReader): V1Pod {
  const pod: V1Pod = { metadata: {} };
  while (reader.next()) {
    const { field } = reader;
    const outer = reader.enter();
    if (field === 1) pod.metadata = readMetadata(reader);
    else if (field === 2) pod.spec = readSpec(reader);
    else if (field === 3) pod.status = readStatus(reader);
    reader.leave(outer);
  }
  return pod;
}

function readMetadata(reader: ProtoReader): NonNullable<V1Pod["metadata"]> {
  const found: NonNullable<V1Pod["metadata"]> = {};
  while (reader.next()) {
    switch (reader.field) {
      case 1:
        found.name = reader.text;
        break;
      case 3:
        found.namespace = reader.text;
        break;
      case 8:
        found.creationTimestamp = readTime(reader);
        break;
      case 9:
        found.deletionTimestamp = readTime(reader);
        break;
      case 12: {
        readEntry(reader, found.annotations ??= {});
      }
    }
  }
  return found;
}

function readSpec(reader: ProtoReader): NonNullable<V1Pod["spec"]> {
  const found: NonNullable<V1Pod["spec"]> = { containers: [] };
  // The API server writes fields in the order of their numbers, empty ones as well.
  while (reader.field < 11 && reader.next()) {
    if (reader.field === 10 && reader.text !== "") found.nodeName = reader.text;
    else if (reader.field === 11 && reader.number === 1) {
      found.hostNetwork = true;
    }
  }
  return found;
}

function readStatus(reader: ProtoReader): NonNullable<V1Pod["status"]> {
  const found: NonNullable<V1Pod["status"]> = {};
  while (reader.next()) {
    const { field } = reader;
    switch (field) {
      case 1:
        if (reader.text !== "") found.phase = reader.text;
        break;
      case 7:
        found.startTime = readTime(reader);
        break;
      case 12: {
        const outer = reader.enter();
        while (reader.next()) {
          if (reader.field === 1) {
            (found.podIPs ??= []).push({ ip: reader.text });
          }
        }
        reader.leave(outer);
      }
    }
  }
  return found;
}

/** Reads an entry of a map of texts into the map. */
function readEntry(reader: ProtoReader, map: Record<string, string>): void {
  const outer = reader.enter();
  let key = "";
  let value = "";
  while (reader.next()) {
    if (reader.field === 1) key = reader.text;
    else if (reader.field === 2) value = reader.text;
  }
  reader.leave(outer);
  map[key] = value;
}

/** metav1.Time, which JSON has in whole seconds, as RFC 3339. */
function readTime(reader: ProtoReader): string {
  const outer = reader.enter();
  let seconds = 0;
  while (reader.next()) if (reader.field === 1) seconds = reader.number;
  reader.leave(outer);
  return new Date(1_000 * seconds).toISOString().replace(".000Z", "Z");
}
