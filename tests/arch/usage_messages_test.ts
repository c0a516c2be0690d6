// docs/usage.md quotes what the programs say. Each quotation is compared with
// what the code says in that case, and each case has a row on the page.
import assert from "node:assert/strict";
import { parseAllDocuments } from "yaml";
import { poolOf, poolStatus } from "../../lib/api/mod.ts";
import * as ipam from "../../lib/ipam/mod.ts";
import { askCoild } from "../../roles/coil/ask.ts";
import { poolEvents } from "../../roles/coil_controller/pools/pool_events.ts";
import { sourceRefusal } from "../../roles/coild/cluster/any_source.ts";
import { parseCoildFlags } from "../../roles/coild/flags.ts";
import { explain } from "../../roles/coild/observe/address_errors.ts";
import { failureOf } from "../../roles/coild/observe/cni_errors.ts";
import { readPages, ROOT } from "./pages.ts";

const PAGE = (await readPages()).find(({ path }) => path === "docs/usage.md");

/** A row of the table of messages; the Event is empty where there is none. */
interface Row {
  readonly message: string;
  readonly event: string;
}

function section(title: string): string {
  const [, rest = ""] = (PAGE?.text ?? "").split(`\n## ${title}\n`);
  const [text = ""] = rest.split("\n## ");
  assert.notEqual(text, "", title);
  return text;
}

const NO_ADDRESS = section("When a pod gets no address");

function documented(): Row[] {
  const [head = "", , ...rows] = NO_ADDRESS.split("\n")
    .filter((line) => line.startsWith("|"));
  assert.match(head, /^\| message \| Event \|/);
  return rows.map((row) => {
    const [, message = "", event = ""] = row.split("|")
      .map((cell) => cell.trim().replaceAll("`", ""));
    return { message, event };
  });
}

const CONTEXT = {
  pod: { namespace: "shop", name: "web" },
  pool: "blue",
  from: "namespace" as const,
  poolNames: () => ["default"],
  heldBlocks: () => 1,
};

const { blockRequestTimeoutMs } = parseCoildFlags([], {
  program: "coild",
  version: "",
  about: "",
});

/** Why ADD finds no address: each answer that {@linkcode explain} has. */
const CAUSES: readonly Error[] = [
  new ipam.OutOfBlocksError("blue"),
  new ipam.OutOfBlocksError("blue", undefined, "10.4.0.0/26 is elsewhere too"),
  new ipam.OutOfBlocksError("blue", "node block limit"),
  new ipam.PoolNotFoundError("blue"),
  new ipam.PoolDeletingError("blue"),
  new ipam.PoolPausedError("blue"),
  new ipam.BlockTimeoutError("blue", blockRequestTimeoutMs),
  new ipam.QuarantinedError({ containerId: "c", ifname: "eth0" }),
];

/** What the plugin says when nothing listens at its socket. */
async function unanswered(socketPath: string): Promise<string> {
  const asking = askCoild({ env: {}, stdin: new Uint8Array(), socketPath });
  return await asking.then(() => "", (error: Error) => error.message);
}

async function said(): Promise<Row[]> {
  const explained = CAUSES.map((cause) => explain(cause, CONTEXT));
  return [
    { message: await unanswered("/nonexistent/x.sock"), event: "" },
    ...explained.map((error) => ({
      message: error.message,
      event: failureOf(error).event ?? "",
    })),
  ];
}

Deno.test("usage.md's messages of a pod without an address are those of the code, and all of them", async () => {
  const rows = documented();
  const all = await said();
  for (const { message, event } of rows) {
    const same = all.filter((each) => each.message.includes(message));
    assert.deepEqual(same.map((each) => each.event), [event], message);
  }
  for (const { message } of all) {
    const found = rows.filter((row) => message.includes(row.message));
    assert.equal(found.length, 1, message);
  }
});

Deno.test("usage.md says how such a message begins", () => {
  const [, beginning = ""] = /`(Cannot [^`]*:)`/.exec(NO_ADDRESS) ?? [];
  const [cause] = CAUSES;
  assert.ok(explain(cause, CONTEXT).message.startsWith(`${beginning} `));
});

Deno.test("usage.md has each Event of an address that ADD does not get", () => {
  const events = Object.values(ipam).flatMap((exported) => {
    const prototype: unknown = typeof exported === "function"
      ? exported.prototype
      : undefined;
    if (!(prototype instanceof Error)) return [];
    return failureOf(Object.create(prototype)).event ?? [];
  });
  const rows = documented().flatMap(({ event }) => event === "" ? [] : event);
  assert.ok(events.length > 3);
  assert.deepEqual(new Set(rows), new Set(events));
});

/** The conditions of a pool of 16 blocks, and the reasons of its Events. */
function poolStates(
  allocated: number,
  { isDeleted = false } = {},
): { readonly conditions: string[]; readonly events: string[] } {
  const metadata = { name: "blue", generation: 1 };
  const pool = poolOf({
    apiVersion: "coil.cybozu.com/v2",
    kind: "AddressPool",
    metadata: isDeleted
      ? { ...metadata, deletionTimestamp: "2026-01-01T00:00:00Z" }
      : metadata,
    spec: { blockSizeBits: 2, subnets: [{ ipv4: "10.2.0.0/26" }] },
  });
  const status = poolStatus(pool, {
    allocated: Array.from({ length: allocated }, (_, index) => index),
    nodes: ["worker-1"],
    now: new Date(),
  });
  const conditions = (status.conditions ?? []).map(({ type, status, reason }) =>
    `${type}=${status} ${reason}`
  );
  const events = poolEvents({}, status).map(({ reason, message }) =>
    `${reason}: ${message}`
  );
  return { conditions, events };
}

Deno.test("usage.md says of a pool's conditions what coil-controller writes", () => {
  const inUse = section("See what is in use");
  assert.match(inUse, /`CapacityLow` becomes True when less than a tenth/);
  assert.match(inUse, /`Ready` is False when none is/);
  assert.ok(
    poolStates(15).conditions.includes("CapacityLow=True FewBlocksFree"),
  );
  assert.ok(
    poolStates(14).conditions.includes("CapacityLow=False EnoughBlocksFree"),
  );
  assert.ok(poolStates(15).conditions[0]?.startsWith("Ready=True "));
  assert.ok(poolStates(16).conditions[0]?.startsWith("Ready=False "));

  assert.match(
    section("Remove a pool"),
    /with `Ready=False` and reason `Deleting`.*a Warning Event names the nodes/,
  );
  const deleted = poolStates(1, { isDeleted: true });
  assert.ok(deleted.conditions.includes("Ready=False Deleting"));
  assert.match(deleted.events.join(), /^Deleting: .*worker-1/);
});

/** What the API server answers to the deletion of a pool in use; the policy's variables become NAME, and … for others. */
async function deletionRefusal(): Promise<string> {
  const file = `${ROOT}deploy/policies/pool_deletion.yaml`;
  const [policy] = parseAllDocuments(await Deno.readTextFile(file));
  assert.ok(policy !== undefined && "toJS" in policy);
  const { metadata, spec } = policy.toJS();
  const [{ messageExpression }] = spec.validations;
  const parts = (messageExpression as string).match(
    /"(?:[^"\\]|\\.)*"|[\w.]+/g,
  );
  const text = (parts ?? []).map((part) => {
    if (part.startsWith('"')) return JSON.parse(part);
    return part === "variables.name" ? "NAME" : "…";
  });
  return `${metadata.name}: ${text.join("")}`;
}

Deno.test("usage.md gives the commands that refusals name", async () => {
  const removal = section("Remove a pool");
  const refusal = await deletionRefusal();
  assert.match(
    refusal,
    /^coil-pool-deletion: AddressPool "NAME" is not deleted: …/,
  );
  for (
    const command of [
      "coil ipam show addresses --pool NAME",
      "kubectl annotate addresspool NAME coil.cybozu.com/delete=NAME",
    ]
  ) {
    assert.ok(removal.includes(`\`${command}\``), command);
    assert.ok(refusal.includes(command), refusal);
  }
  assert.ok(removal.includes("policy `coil-pool-deletion`"));

  const anySource = section("Let a pod send from other addresses");
  const [, allowing = ""] = /^\$ (kubectl label namespace .*)$/m
    .exec(anySource) ?? [];
  assert.ok(sourceRefusal("payments").includes(`"${allowing}"`));
});
