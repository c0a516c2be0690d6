// The NetworkAttachmentDefinitions of docs/coordinator.md as they are, but for
// Multus: by the distribution's plugins, and then the coordinator.
import type { JsonObject } from "../../lib/json/mod.ts";
import assert from "node:assert/strict";
import { parse } from "yaml";
import { openLibc } from "../../lib/linux/mod.ts";
import {
  CoordinatorLab,
  type LabPod,
  ours,
  overlayAddress,
  reaches,
  stateOf,
} from "../netns/coordinator_lab.ts";

openLibc(); // stays open, so it must not be counted as some test's leak

const PLUGINS = "/usr/lib/cni";
const PAGE = new URL("../../docs/coordinator.md", import.meta.url);

interface Plugin extends JsonObject {
  readonly type: string;
}

interface Recipe {
  readonly name: string;
  readonly plugins: readonly Plugin[];
}

/** The lists of plugins in the document. */
async function readRecipes(): Promise<Recipe[]> {
  const text = await Deno.readTextFile(PAGE);
  return [...text.matchAll(/^```yaml\n([^]*?)^```$/gm)]
    .map(([, yaml = ""]) => parse(yaml))
    .filter(({ kind }) => kind === "NetworkAttachmentDefinition")
    .map(({ spec }) => JSON.parse(spec.config));
}

/** Calls a plugin of the distribution on the lab's host. */
async function callPlugin(
  lab: CoordinatorLab,
  pod: LabPod,
  { command, plugin, name }: {
    readonly command: "ADD" | "DEL";
    readonly plugin: Plugin;
    readonly name: string;
  },
): Promise<JsonObject> {
  const child = new Deno.Command("nsenter", {
    args: [`--net=${lab.host.path}`, `${PLUGINS}/${plugin.type}`],
    env: {
      CNI_COMMAND: command,
      CNI_CONTAINERID: pod.containerId,
      CNI_NETNS: pod.netns.path,
      CNI_IFNAME: "net1",
      CNI_PATH: PLUGINS,
    },
    stdin: "piped",
    stdout: "piped",
  }).spawn();
  const writer = child.stdin.getWriter();
  const conf = { cniVersion: "1.0.0", name, ...plugin };
  await writer.write(new TextEncoder().encode(JSON.stringify(conf)));
  await writer.close();
  const { code, stdout } = await child.output();
  const answer = new TextDecoder().decode(stdout);
  assert.equal(code, 0, answer);
  return answer === "" ? {} : JSON.parse(answer);
}

const RECIPES = await readRecipes();

for (const { name, plugins } of RECIPES) {
  const [main, coordinator, ...more] = plugins;
  // Its plugin and its network cards are nowhere near.
  if (main?.type === "sriov") continue;
  Deno.test(`coordinator: the definition "${name}" of the documents joins a pod by ${main?.type}`, async () => {
    assert.ok(main !== undefined && coordinator?.type === "coordinator");
    assert.deepEqual(more, []);
    await using lab = await CoordinatorLab.start(["ipv4"]);
    const master = String(main["master"]);
    for (const change of [["down"], ["name", master]]) {
      await lab.host.ip("link", "set", "net7", ...change);
    }
    await lab.host.ip("link", "set", master, "up");
    const [, gateway = ""] = /"gateway":"([^"]+)"/.exec(JSON.stringify(main)) ??
      [];
    const router = ["address", "add", `${gateway}/24`, "dev", "net7"];
    await lab.switch.ip(...router);
    const pod = await lab.pod([]);
    await lab.addOverlay(pod.netns, 5);
    const prevResult = await callPlugin(lab, pod, {
      command: "ADD",
      plugin: main,
      name,
    });
    const call = { ifname: "net1", config: coordinator, prevResult };
    const printed = JSON.parse(await lab.ok("ADD", pod, call));
    assert.deepEqual(printed, prevResult);
    const [ip] = prevResult["ips"] as { readonly address: string }[];
    const [address = ""] = ip?.address.split("/") ?? [];
    // By the cluster's network from the host, by its own from a machine of another network.
    assert.ok(await reaches(lab.host, address));
    assert.ok(await reaches(lab.switch, address, { source: "10.6.0.1" }));
    assert.ok(await reaches(lab.host, overlayAddress("ipv4", 5)));
    await lab.ok("CHECK", pod, call);
    await lab.ok("DEL", pod, call);
    await callPlugin(lab, pod, { command: "DEL", plugin: main, name });
    const left = [...await stateOf(pod.netns), ...await stateOf(lab.host)];
    assert.deepEqual(ours(left), []);
  });
}

Deno.test("the documents have definitions by macvlan, ipvlan and SR-IOV", () => {
  const types = RECIPES.map(({ plugins }) => plugins[0]?.type);
  assert.deepEqual(types, ["macvlan", "ipvlan", "sriov"]);
});
