import assert from "node:assert/strict";
import { eventually } from "../lab/mod.ts";
import { CoildLab, inPod } from "./coild_lab.ts";

const DUAL = [{ ipv4: "10.100.0.0/26", ipv6: "fd02::100:0/122" }];
const SINGLE = [{ ipv4: "172.31.0.0/31" }];
/** What waits for a block waits longer than any call. */
const ENDLESS = ["--block-request-timeout=1h"];
const HANDLED = "grpc_server_handled_total";

function sample(method: string, code: string): string {
  const labels =
    `grpc_type="unary",grpc_service="pkg.cnirpc.CNI",grpc_method="${method}"`;
  return `${HANDLED}{${labels},grpc_code="${code}"}`;
}

Deno.test("coild serves the CNI commands", async (t) => {
  await using lab = await CoildLab.start({ name: "coildbasic" });
  await lab.createPool("default", DUAL, 3);
  await lab.createPool("single", SINGLE, 0);
  await lab.createNamespace("outer", { "coil.cybozu.com/pool": "single" });
  await lab.createNamespace("typo", { "coil.cybozu.com/pool": "defualt" });
  lab.granter.start();
  const node = lab.node();
  await using coild = await lab.startCoild(node, ENDLESS);

  await t.step(
    "SV-4: ADD gives both families, is logged and counted",
    async () => {
      const pod = await lab.createPod("sv4");
      const result = await coild.add(pod);
      assert.equal(result.cniVersion, "1.1.0");
      assert.deepEqual(
        result.ips.map((ip) => ip.address),
        ["10.100.0.0/32", "fd02::100:0/128"],
      );
      assert.deepEqual(result.ips.map((ip) => ip.interface), [0, 0]);
      assert.equal(result.interfaces[0]?.name, "eth0");
      assert.equal(result.interfaces[0]?.sandbox, `/run/netns/${pod.netns}`);
      assert.match(result.interfaces[1]?.name ?? "", /^veth[0-9a-f]{8}$/);
      for (const address of node.addresses) {
        await inPod(pod, "ping", "-c1", "-w20", address);
      }
      assert.match(
        await node.run("ip", "route", "show", "table", "116"),
        /^10\.100\.0\.0 dev veth\S+ proto 30 scope link/,
      );
      assert.match(
        await node.run("ip", "route", "show", "table", "119"),
        /^10\.100\.0\.0\/29 dev lo proto 30 $/m,
      );
      // It follows the answer and the count.
      const line = await eventually("the record", async () => {
        const lines = (await coild.process.logs()).split("\n");
        return lines.find((text) =>
          text.includes("finished call") && text.includes('"Add"')
        );
      });
      const record = JSON.parse(line);
      assert.ok((await coild.metric(sample("Add", "OK")) ?? 0) >= 1);
      assert.equal(record["grpc.code"], "OK");
      assert.equal(record["grpc.request.container_id"], pod.containerId);
      assert.equal(record["grpc.request.ifname"], "eth0");
      assert.equal(record["grpc.request.netns"], `/run/netns/${pod.netns}`);
      assert.equal(record["grpc.request.pod.name"], "sv4");
      assert.equal(record["grpc.request.pod.namespace"], "default");
      await coild.del(pod);
    },
  );

  await t.step(
    "SV-1: ADD of a pod that does not exist says so with code 3",
    async () => {
      const sandbox = await lab.createSandbox("nobody");
      const error = await coild.refused(coild.add(sandbox));
      assert.deepEqual([error.status, error.code], ["NotFound", 3]);
      assert.match(error.message, /"default\/nobody"/);
    },
  );

  await t.step(
    "SV-2, SV-3: ADD without the pod's name or namespace is refused with code 4",
    async () => {
      const sandbox = await lab.createSandbox("x");
      for (const missing of ["K8S_POD_NAME", "K8S_POD_NAMESPACE"]) {
        const args = {
          K8S_POD_NAME: "x",
          K8S_POD_NAMESPACE: "default",
          [missing]: "",
        };
        const error = await coild.refused(coild.add(sandbox, { args }));
        assert.deepEqual([error.status, error.code], ["InvalidArgument", 4]);
        assert.match(error.message, new RegExp(missing));
      }
    },
  );

  await t.step(
    "SV-5: ADD that fails in the kernel gives the address back",
    async () => {
      const pod = await lab.createPod("sv5", { namespace: "outer" });
      const error = await coild.refused(
        coild.add(pod, { netns: "/run/netns/absent" }),
      );
      assert.equal(error.code, 4);
      assert.match(error.message, /\/run\/netns\/absent/);
      // The pool has two single addresses; three failures would use them up.
      for (let i = 0; i < 3; i++) {
        await coild.refused(
          coild.add(pod, { netns: "/run/netns/absent", containerId: `c${i}` }),
        );
      }
      assert.deepEqual(await coild.addresses(pod), ["172.31.0.0"]);
      await coild.del(pod);
    },
  );

  await t.step(
    "SV-7: an exhausted pool is an error that names pod, pool and remedy",
    async () => {
      const pods = [];
      for (const name of ["e1", "e2"]) {
        const pod = await lab.createPod(name, { namespace: "outer" });
        // The address of the last step's pod is free when its husk is gone.
        await eventually("an address", async () => {
          await coild.add(pod);
          return true;
        });
        pods.push(pod);
      }
      const third = await lab.createPod("e3", { namespace: "outer" });
      const exhausted = async () =>
        await coild.metric(
          'coil_coild_pool_exhausted_adds_total{pool="single"}',
        ) ?? 0;
      const before = await exhausted();
      const error = await coild.refused(coild.add(third));
      assert.deepEqual([error.status, error.code], ["ResourceExhausted", 999]);
      assert.equal(await exhausted(), before + 1);
      assert.match(
        error.message,
        /pod "outer\/e3".*pool "single".*out of blocks.*subnet/,
      );
      // By the pod's UID, also where coild's cache does not have it yet.
      await eventually("an Event on the pod", async () => {
        const pod = ["pod", "e3", "--namespace=outer"];
        const text = await lab.plane.kubectl("describe", ...pod);
        return text.includes("AddressPoolExhausted");
      });
      // A freed address serves the waiting pod.
      await coild.del(pods[0] ?? third);
      await eventually("the third pod to be served", async () => {
        await coild.add(third);
        return true;
      });
      for (const pod of [...pods, third]) await coild.del(pod);
    },
  );

  await t.step(
    "W50: an unknown pool fails without a wait for a block and names the pools there are",
    async () => {
      const pod = await lab.createPod("typo", { namespace: "typo" });
      // With that wait the call would have no answer.
      const error = await coild.refused(coild.add(pod));
      assert.match(
        error.message,
        /"defualt".*namespace "typo".*default, single/,
      );
      assert.equal(error.code, 999);
    },
  );

  await t.step("SV-8: CHECK compares the pod's network deeply", async () => {
    const pod = await lab.createPod("sv8");
    const unknown = await coild.refused(coild.check(pod));
    assert.deepEqual([unknown.status, unknown.code], ["Internal", 999]);
    await coild.add(pod);
    await coild.check(pod);
    await inPod(pod, "ip", "route", "del", "default");
    const error = await coild.refused(coild.check(pod));
    assert.match(error.message, /no ipv4 default route/);
    await coild.del(pod);
  });

  await t.step("DEL logs the addresses that it frees", async () => {
    const pod = await lab.createPod("freed");
    const { ips } = await coild.add(pod);
    await coild.del(pod);
    const line = await eventually(
      "the record",
      async () =>
        (await coild.process.logs()).split("\n").find((text) =>
          text.includes("Detached a pod") && text.includes(pod.containerId)
        ),
    );
    const { ipv4, ipv6 } = JSON.parse(line);
    assert.deepEqual(
      [ipv4, ipv6],
      ips.map(({ address }) => address.split("/")[0]),
    );
  });

  await t.step(
    "SV-9: DEL works without netns, twice, and for what it does not know",
    async () => {
      const pod = await lab.createPod("sv9");
      await coild.add(pod);
      await coild.del(pod, { netns: "" });
      await coild.del(pod, { netns: "" });
      await coild.del(await lab.createSandbox("unknown"));
      await eventually(
        "the veth to be gone",
        async () =>
          !(await node.run("ip", "-d", "link")).includes(pod.containerId),
      );
      assert.ok((await coild.metric(sample("Del", "OK")) ?? 0) > 0);
    },
  );

  await t.step("W4: concurrent ADDs of one key give one address", async () => {
    const pod = await lab.createPod("w4");
    const answers = await Promise.all(
      [1, 2, 3, 4].map(() => coild.addresses(pod)),
    );
    assert.equal(new Set(answers.map(String)).size, 1);
    await coild.check(pod);
    const used = 'coil_coild_addresses{pool="default",state="used"}';
    assert.equal(await coild.metric(used), 1);
    await coild.del(pod);
  });

  await t.step(
    "W2: concurrent DELs of one key all succeed and the daemon lives",
    async () => {
      const pod = await lab.createPod("w2");
      await coild.add(pod);
      await Promise.all([1, 2, 3, 4].map(() => coild.del(pod)));
      await coild.call("Status", undefined);
    },
  );

  await t.step(
    "a taken interface name is refused and nothing is left",
    async () => {
      const pod = await lab.createPod("taken");
      await inPod(pod, "ip", "link", "add", "eth0", "type", "bridge");
      const error = await coild.refused(coild.add(pod));
      assert.equal(error.status, "AlreadyExists");
      assert.match(error.message, /eth0/);
      await inPod(pod, "ip", "link", "del", "eth0");
      await coild.add(pod);
      await coild.del(pod);
    },
  );

  await t.step(
    "odd container IDs and interface names are refused cleanly or served",
    async () => {
      const pod = await lab.createPod("odd");
      for (
        const changes of [
          { containerId: "a:b" },
          { containerId: "x\u0001" },
          { containerId: "c".repeat(300) },
          { ifname: "eth0/1" },
          { ifname: "eth%d" },
          { ifname: "x".repeat(16) },
        ]
      ) {
        const error = await coild.refused(coild.add(pod, changes));
        const text = `${JSON.stringify(changes)}: ${error.message}`;
        assert.deepEqual(
          [error.status, error.code],
          ["InvalidArgument", 4],
          text,
        );
        await coild.del(pod, changes);
      }
      await coild.add(pod, { containerId: "A_b.c-1" });
      await coild.del(pod, { containerId: "A_b.c-1" });
      const used = 'coil_coild_addresses{pool="default",state="used"}';
      assert.equal(await coild.metric(used), 0);
    },
  );

  await t.step("malformed netns paths are refused with code 4", async () => {
    const pod = await lab.createPod("paths");
    for (
      const netns of [
        "/etc/hostname",
        "/proc/self/ns/mnt",
        "relative",
        "/nowhere",
      ]
    ) {
      const error = await coild.refused(coild.add(pod, { netns }));
      assert.equal(error.code, 4, `${netns}: ${error.message}`);
    }
  });

  await t.step(
    "annotations that the runtime hands over are believed without the API",
    async () => {
      const sandbox = await lab.createSandbox("static");
      const runtimeConfig = { "io.kubernetes.cri.pod-annotations": { a: "b" } };
      await coild.add(sandbox, { config: { runtimeConfig } });
      await coild.del(sandbox);
    },
  );

  await t.step(
    "a second coild on the same socket ends and names the first",
    async () => {
      const second = await lab.spawnCoild(node, [
        "--metrics-addr=0",
        "--health-addr=0",
      ]);
      const status = await second.process.exited;
      assert.equal(status.code, 1);
      const logs = await second.process.logs();
      assert.match(
        logs,
        new RegExp(`process ${coild.process.pid} already does`),
      );
      await coild.call("Status", undefined);
    },
  );

  await t.step("the socket is for root alone", async () => {
    const { mode } = await Deno.stat(coild.socketPath);
    assert.equal((mode ?? 0) & 0o777, 0o600);
  });
});
