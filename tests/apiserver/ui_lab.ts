/**
 * `coil ui`, and a cluster for it.
 *
 * @module
 */
import assert from "node:assert/strict";
import { coil, type Output } from "../../roles/cli/testing.ts";
import { awaitedLater, type ControlPlane } from "../lab/mod.ts";
import { addPart, addParts } from "./coil_parts.ts";
import { addPod, block, pool } from "./ipam_books.ts";
import { addEgress } from "./egresses.ts";
import { patchStatus } from "./patch_status.ts";

/** `coil ui` at work. */
export interface Ui extends AsyncDisposable {
  readonly url: string;
  /** Ends it, as Ctrl-C does. */
  end(): Promise<Output>;
}

/** Starts `coil ui` and waits for its URL. */
export async function startUi(
  kubeconfig: string,
  ...args: readonly string[]
): Promise<Ui> {
  const stop = new AbortController();
  const printed = Promise.withResolvers<string>();
  const ended = awaitedLater(
    coil(["ui", `--kubeconfig=${kubeconfig}`, ...args], {
      signal: stop.signal,
      onWrite: ({ out }) => printed.resolve(out.trim()),
    }),
  );
  const failed = ended.then(({ err }) => assert.fail(`coil ui ended: ${err}`));
  const url = await Promise.race([printed.promise, failed]);
  failed.catch(() => {});
  const end = async () => {
    stop.abort();
    return await ended;
  };
  const dispose = async () => void await end();
  return { url, end, [Symbol.asyncDispose]: dispose };
}

const NODES = ["node1", "node2", "node3"];
const WORDS = ["web", "api", "cache", "queue", "search"];

/** Pools, blocks and pods as clusters have them, an Egress; a node without coild, a pool without blocks and a doubled address. */
export async function populateUi(plane: ControlPlane): Promise<void> {
  for (const name of ["shop", "nat"]) {
    await plane.createNamespace(name);
  }
  await addParts(plane, NODES);
  await addPart(plane, {
    name: "coild-node3",
    component: "coild",
    node: "node3",
    waiting: "CrashLoopBackOff",
  });
  await plane.apply(
    pool("default", [{ ipv4: "10.2.0.0/22" }, { ipv4: "10.9.0.0/26" }]),
    pool("public", [{ ipv4: "192.0.2.0/27" }]),
  );
  await addBlocks(plane);
  await addPods(plane);
  await addEgress(plane, "internet", {
    clients: [0, 1, 2, 3, 4].map((n) => ({
      namespace: "shop",
      name: `${WORDS[n]}-${n}`,
      uid: `uid-${n}`,
      nodeName: NODES[n % 3],
    })),
    gateways: [
      { node: "node1", address: "10.9.0.4", isReady: true },
      { node: "node2", address: "10.2.0.33", isReady: false },
    ],
  });
  await setPool(plane, "default", "True", "27 of 34 blocks are free");
  await setPool(plane, "public", "False", "no block is free");
  await patchStatus(
    plane,
    "/apis/coil.cybozu.com/v2/namespaces/nat/egresses/internet",
    { conditions: [readyCondition("True", "1 of 2 gateways is ready")] },
  );
}

async function addBlocks(plane: ControlPlane): Promise<void> {
  const places = [0, 1, 2, 4, 5, 7, 32];
  for (const [n, index] of places.entries()) {
    const ipv4 = index < 32 ? `10.2.0.${index * 32}/27` : "10.9.0.0/27";
    const node = NODES[n % NODES.length] ?? "";
    await plane.apply(block(["default", index, node], { ipv4 }));
  }
  await plane.apply(block(["public", 0, "node1"], { ipv4: "192.0.2.0/27" }));
}

async function addPods(plane: ControlPlane): Promise<void> {
  for (let n = 0; n < 45; n++) {
    const word = WORDS[n % WORDS.length] ?? "";
    const node = NODES[n % 3] ?? "";
    const index = [[0, 4], [1, 5], [2, 7]][n % 3]?.[n % 2] ?? 0;
    const ip = `10.2.0.${index * 32 + (n * 7) % 32}`;
    await addPod(plane, ["shop", `${word}-${n}`, node], [ip]);
  }
  await addPod(plane, ["shop", "twin-a", "node3"], ["10.2.0.65"]);
  await addPod(plane, ["shop", "twin-b", "node3"], ["10.2.0.65"]);
}

/** Says whether a pool has blocks, and why not. */
export async function setPool(
  plane: ControlPlane,
  name: string,
  status: "True" | "False",
  message: string,
): Promise<void> {
  const path = `/apis/coil.cybozu.com/v2/addresspools/${name}`;
  const conditions = [readyCondition(status, message)];
  await patchStatus(plane, path, { conditions });
}

function readyCondition(status: "True" | "False", message: string): object {
  return {
    type: "Ready",
    status,
    reason: status === "True" ? "Ready" : "Exhausted",
    message,
    lastTransitionTime: "2026-01-01T00:00:00Z",
  };
}
