import type { JsonObject } from "../../lib/json/mod.ts";
import assert from "node:assert/strict";
import type { PluginAnswer } from "../../lib/cnirpc/plugin/mod.ts";
import { NoAnswerError } from "../../lib/plugin/mod.ts";
import { askCoild } from "../../roles/coil/ask.ts";
import { eventually, run } from "../lab/mod.ts";
import { usedRights } from "../lab/rights_log.ts";
import { grantedTo } from "../runner/rights.ts";
import { collectionsOf } from "./audited.ts";
import {
  coilCommand,
  type Coild,
  CoildLab,
  inPod,
  type Sandbox,
} from "./coild_lab.ts";
import {
  installSpiderCoordinators,
  setSpiderStatus,
  SPIDER_PATH,
  spiderCoordinator,
} from "./coordinator_lab.ts";

const RBAC = new URL(
  "../../deploy/coordinator/coild_coordinator_rbac.yaml",
  import.meta.url,
).pathname;
const ALONE = [
  "--enable-ipam=false",
  "--enable-egress=false",
  "--enable-coordinator",
];
const SERVICES = "10.96.0.0/12";

/** A node whose coild serves the coordinator, with pods by macvlan. */
class Stage {
  readonly lab: CoildLab;
  readonly directory: string;
  #next = 50;

  constructor(lab: CoildLab, directory: string) {
    this.lab = lab;
    this.directory = directory;
  }

  async coild(): Promise<Coild> {
    const socketPath = `${this.directory}/coild.sock`;
    return await this.lab.spawnCoild(this.lab.node(), ALONE, { socketPath });
  }

  async ready(coild: Coild): Promise<void> {
    await eventually(
      "coild",
      async () =>
        /^readyz check passed$/m.test(await coild.readyz().catch(() => "")),
    );
  }

  /** As macvlan leaves it. */
  async addNic(
    pod: Sandbox,
    name: string,
    address = `10.7.0.${this.#next++}`,
  ): Promise<string> {
    const { lab } = this;
    await lab.node().run(
      ...["ip", "link", "add", "link", "eth0", "name", "tmp"] as const,
      ...["type", "macvlan", "mode", "bridge"],
    );
    await lab.node().run(
      "ip",
      "link",
      "set",
      "tmp",
      "netns",
      pod.netns,
      "name",
      name,
    );
    await inPod(pod, "ip", "link", "set", name, "up");
    await inPod(pod, "ip", "address", "add", `${address}/24`, "dev", name);
    await inPod(
      pod,
      "ip",
      "route",
      "append",
      "default",
      "via",
      "10.7.0.1",
      "dev",
      name,
    );
    return address;
  }

  #input(command: string, pod: Sandbox | undefined, changes: Changes) {
    const env = {
      CNI_COMMAND: command,
      CNI_CONTAINERID: pod?.containerId ?? "",
      CNI_NETNS: pod === undefined ? "" : `/run/netns/${pod.netns}`,
      CNI_IFNAME: changes.ifname ?? (pod === undefined ? "" : "eth0"),
      CNI_PATH: "/opt/cni/bin",
      CNI_ARGS: pod === undefined
        ? ""
        : `K8S_POD_NAMESPACE=${pod.namespace};K8S_POD_NAME=${pod.name}`,
    };
    const stdin = JSON.stringify({
      cniVersion: "1.1.0",
      name: "underlay",
      type: "coordinator",
      socket: `${this.directory}/coild.sock`,
      prevResult: { cniVersion: "1.1.0" },
      ...changes.config,
    });
    return { env, stdin };
  }

  /** A call that coild answers. */
  async call(
    command: string,
    pod: Sandbox | undefined,
    changes: Changes = {},
  ): Promise<PluginAnswer> {
    const { env, stdin } = this.#input(command, pod, changes);
    const answer = await askCoild({
      socketPath: `${this.directory}/coordinator.sock`,
      env,
      stdin: new TextEncoder().encode(stdin),
    });
    assert.ok(answer !== undefined);
    return answer;
  }

  /** A call that coild does not answer. */
  async callAlone(command: string, pod: Sandbox): Promise<PluginAnswer> {
    const { env, stdin } = this.#input(command, pod, {});
    const child = new Deno.Command("nsenter", {
      args: [
        `--net=/run/netns/${this.lab.node().netns}`,
        ...coilCommand("coordinator"),
      ],
      env,
      stdin: "piped",
      stdout: "piped",
    }).spawn();
    const writer = child.stdin.getWriter();
    await writer.write(new TextEncoder().encode(stdin));
    await writer.close();
    const { code, stdout } = await child.output();
    const text = new TextDecoder().decode(stdout);
    return { exitCode: code === 0 ? 0 : 1, stdout: text };
  }

  /** A call as the executable makes it: by coild, else in its own process. */
  async callAny(command: string, pod: Sandbox): Promise<PluginAnswer> {
    try {
      return await this.call(command, pod);
    } catch (error) {
      if (!(error instanceof NoAnswerError)) throw error;
      return await this.callAlone(command, pod);
    }
  }

  async file(): Promise<JsonObject> {
    const text = await Deno.readTextFile(this.directory + "/coordinator.json");
    return JSON.parse(text)["config"];
  }

  async modeOf(name: string): Promise<number> {
    const { mode } = await Deno.stat(`${this.directory}/${name}`);
    return (mode ?? 0) & 0o777;
  }
}

interface Changes {
  readonly ifname?: string;
  readonly config?: JsonObject;
}

function namesIn(directory: string): string[] {
  return Array.from(Deno.readDirSync(directory), ({ name }) => name);
}

/** Code, message and details of a call that failed; "ok" of one that did not. */
function outcome({ exitCode, stdout }: PluginAnswer): string {
  if (exitCode === 0) return "ok";
  const { code, msg, details } = JSON.parse(stdout);
  return `${code} ${msg}: ${details}`;
}

Deno.test("coild serves the coordinator and nothing else", async (t) => {
  await using lab = await CoildLab.start({
    name: "coildcoord",
    audit: "metadata",
  });
  const { plane } = lab;
  const directory = await Deno.makeTempDir();
  const stage = new Stage(lab, directory);
  await lab.node().run("sysctl", "-qw", "net.ipv4.ip_forward=1");
  let coild = await stage.coild();
  const pod = await lab.createPod("first");
  const address = await stage.addNic(pod, "eth0");

  await t.step(
    "before the resource is defined it is not ready, and serves who needs no defaults",
    async () => {
      await eventually("readyz", async () => {
        const text = await coild.readyz();
        return /\[-\]coordinator failed: .*not answered yet about SpiderCoord/
          .test(text) && text.includes("[+]sockets ok");
      });
      assert.match(
        outcome(await stage.call("ADD", pod)),
        /^11 coordinator config not found: .*create it.*or set serviceCIDR/,
      );
      const config = { serviceCIDR: [SERVICES] };
      assert.equal(outcome(await stage.call("ADD", pod, { config })), "ok");
      assert.equal(outcome(await stage.call("DEL", pod)), "ok");
    },
  );

  await t.step("there is one socket, for root alone", async () => {
    assert.equal(await stage.modeOf("coordinator.sock.cni"), 0o600);
    const names = namesIn(directory);
    assert.deepEqual(names.sort(), [
      "coordinator.sock.cni",
      "coordinator.sock.lock",
    ]);
  });

  await t.step("it waits for the status, and takes it over", async () => {
    await installSpiderCoordinators(plane);
    await plane.kubectl("apply", "-f", RBAC);
    await plane.apply(spiderCoordinator({ podCIDRType: "none" }));
    const add = async () => outcome(await stage.call("ADD", pod));
    await eventually(
      "the resource",
      async () => /^11 spidercoordinator: default no ready/.test(await add()),
    );
    const status = { phase: "Synced", serviceCIDR: [SERVICES] };
    await setSpiderStatus(plane, status);
    await eventually("the status", async () => await add() === "ok");
    assert.match(await coild.readyz(), /\[\+\]coordinator ok/);
    assert.match(
      await inPod(pod, "ip", "route"),
      /^10\.96\.0\.0\/12 via \S+ dev veth0/m,
    );
    await lab.node().run("ping", "-c1", "-w20", address);
  });

  await t.step("the file follows the resource", async () => {
    const is = (key: string, value: string) =>
      eventually(key, async () => `${(await stage.file())[key]}` === value);
    await is("serviceCIDR", SERVICES);
    assert.equal((await stage.file())["hostRuleTable"], 500);
    assert.equal(await stage.modeOf("coordinator.json"), 0o600);
    await plane.request("PATCH", `${SPIDER_PATH}/default`, {
      spec: { hostRuleTable: 501, txQueueLen: 99 },
    }, { contentType: "application/merge-patch+json" });
    await is("hostRuleTable", "501");
    // Pods that are there have what was in force when they came.
    assert.match(
      outcome(await stage.call("CHECK", pod)),
      /this would repair it: .*txqueuelen 99; .* table 501/,
    );
    assert.equal(outcome(await stage.call("ADD", pod)), "ok");
    assert.equal(outcome(await stage.call("CHECK", pod)), "ok");
  });

  await t.step(
    "a pod's annotation says which interface keeps the default route",
    async () => {
      const annotations = { "ipam.spidernet.io/default-route-nic": "net1" };
      const other = await lab.createPod("annotated", { annotations });
      for (const ifname of ["eth0", "net1"]) {
        await stage.addNic(other, ifname);
        const answer = await stage.call("ADD", other, { ifname });
        assert.equal(outcome(answer), "ok");
      }
      assert.match(
        await inPod(other, "ip", "route", "show", "default"),
        /^default via 10\.7\.0\.1 dev net1\s*$/,
      );
      assert.match(await inPod(other, "ip", "link"), /qlen 99/);
      for (const ifname of ["net1", "eth0"]) {
        const answer = await stage.call("DEL", other, { ifname });
        assert.equal(outcome(answer), "ok");
      }
    },
  );

  await t.step("calls are counted and their outcome recorded", async () => {
    const calls = 'coil_coordinator_calls_total{command="ADD",result="ok"}';
    assert.ok((await coild.metric(calls) ?? 0) >= 4);
    await eventually("news of the API server", async () => {
      const age = await coild.metric("coil_coordinator_defaults_age_seconds");
      return age !== undefined && age < 120;
    });
    const logs = await coild.process.logs();
    assert.match(logs, /"Finished call".*"mode":"underlay"/);
  });

  await t.step(
    "ADDs at once succeed while coild is killed and starts again",
    async () => {
      const wave: (readonly [Sandbox, string])[] = [];
      for (let i = 0; i < 6; i++) {
        const sandbox = await lab.createPod(`wave-${i}`);
        wave.push([sandbox, await stage.addNic(sandbox, "eth0")]);
      }
      const add = ([sandbox]: readonly [Sandbox, string]) =>
        stage.callAny("ADD", sandbox);
      const early = wave.slice(0, 4).map(add);
      await Promise.race(early);
      await coild.process.kill9();
      const late = wave.slice(4).map(add);
      coild = await stage.coild();
      for (const answer of await Promise.all([...early, ...late])) {
        assert.equal(outcome(answer), "ok");
      }
      await stage.ready(coild);
      for (const [sandbox, to] of wave) {
        assert.equal(outcome(await stage.call("CHECK", sandbox)), "ok");
        await lab.node().run("ping", "-c1", "-w20", to);
        assert.equal(outcome(await stage.call("DEL", sandbox)), "ok");
      }
      await eventually("one pair is left", async () => {
        const links = await lab.node().run("ip", "-d", "link");
        return [...links.matchAll(/COIL-COORD\S*/g)].length === 1;
      });
    },
  );

  await t.step(
    "without coild the whole program does the same, and DEL, CHECK and GC need nothing",
    async () => {
      await coild.process.kill9();
      await plane.killApiServer();
      assert.equal(outcome(await stage.callAlone("CHECK", pod)), "ok");
      assert.equal(outcome(await stage.callAlone("DEL", pod)), "ok");
      assert.equal(outcome(await stage.callAlone("ADD", pod)), "ok");
      assert.match(await lab.node().run("ip", "rule"), /lookup 501/);
    },
  );

  await t.step(
    "a coild that starts without an API server goes by the file",
    async () => {
      coild = await stage.coild();
      await stage.ready(coild);
      assert.equal(outcome(await stage.call("STATUS", undefined)), "ok");
      for (const command of ["CHECK", "DEL", "ADD", "DEL"]) {
        assert.equal(outcome(await stage.call(command, pod)), "ok", command);
      }
      const valid = { "cni.dev/valid-attachments": [] };
      const gc = await stage.call("GC", undefined, { config: valid });
      assert.equal(outcome(gc), "ok");
    },
  );

  await t.step(
    "a resource that is gone leaves the defaults as they were",
    async () => {
      await plane.startApiServer();
      await eventually("contact", async () => {
        const sample = "coil_coordinator_defaults_age_seconds";
        return await coild.metric(sample) !== undefined;
      });
      await plane.request("DELETE", `${SPIDER_PATH}/default`);
      await plane.apply(spiderCoordinator({ hostRuleTable: 502 }));
      await eventually("the next one", async () => {
        return (await stage.file())["hostRuleTable"] === 502;
      });
      assert.deepEqual((await stage.file())["serviceCIDR"], [SERVICES]);
      assert.equal(outcome(await stage.call("ADD", pod)), "ok");
    },
  );

  await t.step(
    "the pod's owner learns of an address that is in use",
    async () => {
      const other = await lab.createPod("double");
      const taken = await stage.addNic(other, "eth0");
      const owner = await lab.createPod("owner");
      await stage.addNic(owner, "eth0", taken);
      const [row] = JSON.parse(
        await inPod(owner, "ip", "-j", "link", "show", "eth0"),
      );
      // An answer ends the wait.
      const detectOptions = { retries: 1, timeout: "2s" };
      const config = { detectIPConflict: true, detectOptions };
      for (let i = 0; i < 2; i++) {
        assert.match(
          outcome(await stage.call("ADD", other, { config })),
          new RegExp(`^11 ip conflict: .*is located at ${row.address}`),
        );
        await inPod(
          other,
          ...[
            "ip",
            "address",
            "replace",
            `${taken}/24`,
            "dev",
            "eth0",
          ] as const,
        );
      }
      await eventually("the Event, counted", async () => {
        const events = await plane.kubectl("get", "events", "-A", "-o", "json");
        const { items } = JSON.parse(events) as {
          items: { reason: string; message: string; count: number }[];
        };
        return items.some(({ reason, message, count }) =>
          reason === "AddressConflict" && message.includes(row.address) &&
          message.includes(taken) && count === 2
        );
      });
      assert.equal(outcome(await stage.call("DEL", other)), "ok");
    },
  );

  await t.step("it asks for pods of its node and one resource", async () => {
    const user = "system:serviceaccount:kube-system:coild";
    const requests = await plane.auditRequests({ user });
    const used = new Set(usedRights(requests).map(({ right }) => right));
    // While the list is behind a pod that is being started.
    used.add("get pods");
    const granted = await grantedTo(
      "kube-system:coild",
      "overlays/coordinator-only",
    );
    assert.deepEqual([...used].sort(), [...granted].sort());
    assert.deepEqual(await collectionsOf(plane, { user }), [
      `watch /api/v1/pods spec.nodeName=${lab.node().name}`,
      `watch ${SPIDER_PATH} metadata.name=default`,
    ]);
  });

  await coild[Symbol.asyncDispose]();
  await run("rm", ["-r", directory]);
});
