// Overlay compat over a running Coil v2 of upstream's, and back: its real
// programs, node by node, under pods that come and go. Nobody is refused a
// right, no address is doubled, nothing is left.
import assert from "node:assert/strict";
import { testedCommands } from "../arch/pages.ts";
import { binDir, eventually, type LabNode, run } from "../lab/mod.ts";
import { PeerLab } from "./peer_lab.ts";
import { Churn } from "./peer_churn.ts";

/** As the API server says it. "Cannot get …" alone also comes while definitions change, and the call is repeated. */
const REFUSED =
  /forbidden|cannot (get|list|watch|create|update|patch|delete) resource/i;
const BLOCKS = "/apis/coil.cybozu.com/v2/addressblocks";

/** The guide's commands for the way back, those before and those after upstream's manifests. */
async function guideCommands(): Promise<readonly string[]> {
  const blocks = await testedCommands("docs/install.md", import.meta.url);
  assert.equal(blocks.length, 2);
  return blocks.map((commands) => commands.join("\n"));
}

/** A request with the token of a node's coild. Returns the refusal, "" when it was done. */
async function asCoild(
  lab: PeerLab,
  node: LabNode,
  block: { readonly metadata: { readonly name: string } },
): Promise<string> {
  const token = await lab.plane.serviceAccountToken({
    namespace: "kube-system",
    name: "coild",
    node: node.name,
  });
  using client = Deno.createHttpClient({ caCerts: [lab.plane.ca] });
  const uri = `${lab.plane.url}${BLOCKS}/${block.metadata.name}`;
  const response = await fetch(uri, {
    method: "PUT",
    client,
    headers: {
      authorization: `Bearer ${token}`,
      "content-type": "application/json",
    },
    body: JSON.stringify(block),
  });
  const text = await response.text();
  return response.ok ? "" : JSON.parse(text).message;
}

interface Block {
  readonly metadata: {
    readonly name: string;
    readonly labels: Readonly<Record<string, string>>;
    readonly finalizers?: readonly string[];
  };
}

async function blockOf(lab: PeerLab, node: LabNode): Promise<Block> {
  return await eventually(`a block of ${node.name}`, async () => {
    const { items } = await lab.plane.request("GET", BLOCKS) as {
      items: Block[];
    };
    return items.find(({ metadata }) =>
      metadata.labels["coil.cybozu.com/node"] === node.name
    );
  });
}

Deno.test("overlay compat over a running Coil v2 and back, node by node, under pods that come and go", async (t) => {
  await using lab = await PeerLab.start("bothways", { nodes: 2 });
  const { plane } = lab;
  const [node1, node2] = lab.nodes;
  assert.ok(node1 !== undefined && node2 !== undefined);
  for (const [name, ipv4] of [["default", "10.2"], ["gpu-blue", "10.3"]]) {
    await plane.apply({
      apiVersion: "coil.cybozu.com/v2",
      kind: "AddressPool",
      metadata: { name, finalizers: ["coil.cybozu.com"] },
      // One address in a block: each DEL is that of a block's last pod.
      spec: { blockSizeBits: 0, subnets: [{ ipv4: `${ipv4}.0.0/24` }] },
    });
  }
  const annotations = { "coil.cybozu.com/pool": "gpu-blue" };
  await plane.apply({
    apiVersion: "v1",
    kind: "Namespace",
    metadata: { name: "gpu", annotations },
  });
  const holders = new Map<string, string>();
  const churns = lab.nodes.map((node) =>
    new Churn(lab, { node, namespace: "default", holders })
  );
  const dashed = new Churn(lab, { node: node1, namespace: "gpu", holders });
  const all = [...churns, dashed];
  const refusals = () =>
    all.flatMap(({ errors }) => errors.filter((text) => REFUSED.test(text)));
  // A step without the one before it would only repeat its failure.
  const step = async (name: string, run: () => Promise<void>) =>
    assert.ok(await t.step(name, run), `Cannot go on after "${name}"`);
  const progress = () => Promise.all(churns.map((c) => c.progress(4)));

  await step("upstream's alone", async () => {
    await lab.runController("peer");
    for (const node of lab.nodes) await lab.runCoild(node, "peer");
    for (const churn of churns) churn.start();
    await progress();
    assert.deepEqual(refusals(), []);
  });

  await step("compat is applied: upstream's coild goes on", async () => {
    await lab.applyCompat();
    await progress();
    await progress();
    assert.deepEqual(refusals(), []);
  });

  await step("upstream's coild restarts on a node", async () => {
    await lab.runCoild(node1, "peer");
    await progress();
    assert.deepEqual(refusals(), []);
  });

  await step(
    "the policies hold although coild may update blocks",
    async () => {
      // Its blocks come and go with its pods.
      const refused = async (
        change: Partial<Block["metadata"]>,
        message: RegExp,
      ) => {
        let last = "";
        await eventually(`to be refused: ${message}`, async () => {
          const block = await blockOf(lab, node2);
          const metadata = { ...block.metadata, ...change };
          last = await asCoild(lab, node1, { ...block, metadata });
          return message.test(last);
        }).catch((cause) => {
          throw new Error(`The last answer was: ${last}`, { cause });
        });
      };
      await refused({ labels: {} }, /coil-node-blocks/);
      await refused(
        { finalizers: [] },
        /the block belongs to node "node2", and the token to node "node1"/,
      );
    },
  );

  await step("our controller, then our coild on one node", async () => {
    await lab.runController("ours");
    await progress();
    await lab.runCoild(node1, "ours");
    dashed.start();
    await Promise.all([progress(), dashed.progress(3)]);
    assert.deepEqual(refusals(), []);
  });

  await step("and on the other", async () => {
    await lab.runCoild(node2, "ours");
    await progress();
    assert.deepEqual(refusals(), []);
  });

  await step("the way back, as the guide says", async () => {
    const [before = "", after = ""] = await guideCommands();
    assert.match(before, /validatingadmissionpolicies/);
    const kubectl = async (script: string) =>
      await run("bash", ["-euo", "pipefail", "-c", script], {
        env: {
          KUBECONFIG: plane.kubeconfig,
          PATH: `${binDir()}:${Deno.env.get("PATH")}`,
        },
      });
    await kubectl(before);
    await lab.applyPeer();
    await progress();
    await lab.runCoild(node2, "ours");
    await progress();
    await lab.runController("peer");
    await progress();
    await lab.runCoild(node2, "peer");
    await progress();
    await lab.runCoild(node1, "peer");
    await Promise.all([progress(), dashed.progress(3)]);
    await kubectl(after);
    await Promise.all([progress(), dashed.progress(3)]);
    assert.deepEqual(refusals(), []);
  });

  await step("nothing is left when all pods are gone", async () => {
    for (const churn of all) await churn.stop();
    for (const churn of all) await churn.deleteAll();
    assert.deepEqual(refusals(), []);
    // Upstream's coild leaves its last answered request until the next one. A
    // block whose answer it missed stays empty until an ADD takes it, or until
    // the next start, which collects what is unused.
    for (const node of lab.nodes) await lab.runCoild(node, "peer");
    await eventually("no blocks", async () => {
      assert.deepEqual(await lab.names("addressblocks"), []);
      return true;
    });
    for (const node of lab.nodes) await lab.untilClean(node);
  });
});
